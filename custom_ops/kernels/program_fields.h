// Reads a program line by line, field by field, and says precisely where one is wrong.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "program_error.h"

namespace dpiframe {

class ProgramReader {
 public:
  explicit ProgramReader(std::string_view text) : rest_(text) {}

  bool AtEnd() const { return rest_.empty(); }

  // Moves to the next line.
  void NextLine(const char* expected) {
    ++line_number_;
    field_ = 0;
    if (rest_.empty()) Fail(std::string("the program ends where a line \"") + expected + "\" was expected");
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos) Fail("the line is not ended by a newline");
    line_ = rest_.substr(0, end);
    line_rest_ = line_;
    line_done_ = line_.empty();
    rest_.remove_prefix(end + 1);
  }

  // Whether the next line starts with this word.
  bool NextLineIs(std::string_view word) const {
    return rest_.substr(0, word.size()) == word && rest_.size() > word.size() &&
           (rest_[word.size()] == ' ' || rest_[word.size()] == '\n');
  }

  bool NextLineStartsWith(std::string_view prefix) const { return rest_.substr(0, prefix.size()) == prefix; }

  bool LineDone() const { return line_done_; }

  // The line as a whole.
  std::string_view Line() const { return line_; }

  // What is left of the line, spaces and all.
  std::string_view Rest(const char* what) {
    ++field_;
    what_ = what;
    if (line_done_) Fail("is missing");
    line_done_ = true;
    return line_rest_;
  }

  std::string_view Word(const char* what) {
    ++field_;
    what_ = what;
    if (line_done_) Fail("is missing");
    const size_t end = line_rest_.find(' ');
    const std::string_view word = line_rest_.substr(0, end);
    line_done_ = end == std::string_view::npos;
    line_rest_.remove_prefix(line_done_ ? line_rest_.size() : end + 1);
    if (word.empty()) Fail("is empty: fields are separated by single spaces");
    return word;
  }

  void Literal(std::string_view expected) {
    const std::string_view word = Word("keyword");
    if (word != expected) Fail("is \"" + std::string(word) + "\" where \"" + std::string(expected) + "\" was expected");
  }

  // Moves to the next line, and past the keyword that it begins with.
  void NextLineOf(const char* keyword) {
    NextLine(keyword);
    Literal(keyword);
  }

  // The first line of a program: its kind, and the only version of its format that there is.
  void Format(const char* kind) {
    NextLine((std::string(kind) + " 1").c_str());
    Literal(kind);
    if (Integer("format version", 0, INT64_MAX) != 1) Fail("is a format that this library does not know: it knows 1");
    EndLine();
  }

  int64_t Integer(const char* what, int64_t low, int64_t high) { return ToInteger(Word(what), low, high); }

  int64_t ToInteger(std::string_view text, int64_t low = INT64_MIN, int64_t high = INT64_MAX) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      Fail("is \"" + std::string(text) + "\", which is not a whole number of 64 bits");
    }
    if (value < low || value > high) {
      Fail("is " + std::string(text) + ", outside " + std::to_string(low) + " to " + std::to_string(high));
    }
    return value;
  }

  // An index into a list of `count` things.
  int Index(const char* what, size_t count) { return ToIndex(Word(what), count); }

  int ToIndex(std::string_view text, size_t count) {
    const int64_t value = ToInteger(text);
    if (value < 0 || value >= static_cast<int64_t>(count)) {
      Fail("is " + std::string(text) + ", but the program declares " + std::to_string(count));
    }
    return static_cast<int>(value);
  }

  float Float(const char* what) {
    const std::string_view text = Word(what);
    float value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      Fail("is \"" + std::string(text) + "\", which is not a finite float32");
    }
    return value;
  }

  // Any number, infinity or NaN of a floating-point type, rounded to it.
  template <typename T>
  T Floating(const char* what) {
    const std::string_view text = Word(what);
    T value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      Fail("is \"" + std::string(text) + "\", which is not a number of this type");
    }
    return value;
  }

  void EndLine() {
    if (!line_done_) {
      ++field_;
      what_ = "end of line";
      Fail("was expected, not \"" + std::string(line_rest_) + "\"");
    }
  }

  // Fails at the field that was read last.
  [[noreturn]] void Fail(const std::string& problem) const {
    std::string where = "line " + std::to_string(line_number_);
    if (field_ > 0) where += ", field " + std::to_string(field_) + " (" + what_ + ")";
    throw ProgramError(where + ": " + problem);
  }

 private:
  std::string_view rest_;
  std::string_view line_;
  std::string_view line_rest_;
  bool line_done_ = true;
  int line_number_ = 0;
  int field_ = 0;
  const char* what_ = "";
};

}  // namespace dpiframe
