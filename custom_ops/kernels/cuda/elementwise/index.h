// Indices into a value's elements as the printer writes them: sums of terms, which divisions can be carried out on
// before anything is printed. What a chain of views, broadcasts and reshapes comes to is found that way.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dpiframe::cuda {

// A vector is a run of places 0 ... width - 1 that a thread works on at once; an index may depend on the place.
class Index {
 public:
  static Index Constant(int64_t number);
  static Index Variable(const std::string& text, int64_t bound);
  // The place in a vector; 0 where the width is 1.
  static Index Place(int width);

  Index operator+(const Index& other) const;
  Index Times(int64_t factor) const;
  // Quotient and remainder.
  std::pair<Index, Index> Split(int64_t divisor) const;
  // The index less `first`, where it's known to lie in [first, first + count).
  Index Within(int64_t first, int64_t count) const;
  Index At(int64_t place) const;

  // One more than the largest value.
  int64_t bound() const;
  bool is_constant() const { return terms_.empty() && step_ == 0 && !opaque_; }
  int64_t constant() const { return constant_; }
  // What the next place adds. Of no use where the index is opaque: the place stands inside of a division.
  int64_t step() const { return step_; }
  bool opaque() const { return opaque_; }
  bool depends_on_place() const { return opaque_ || step_ != 0; }
  // Whether place 0 is a multiple of this power of two.
  bool IsMultipleOf(int64_t number) const;
  // Whether the value is that of a variable alone, or of a vector's first place and the place.
  bool IsVariable(const std::string& text, int64_t bound, int width) const;

  // In C++, of place 0, with a type of 32 bits without a sign. Equal texts and steps mean equal indices.
  std::string Text() const;
  // The same to be added to an address. A constant is apart from the rest, which shares its value with other indices.
  std::string AddressText() const;
  std::string Key() const {
    return step_ == 0 ? Text() : Text() + "|" + std::to_string(step_) + "|" + std::to_string(width_);
  }

 private:
  struct Term {
    std::string text;
    int64_t factor;
    int64_t bound;
  };

  bool HasNegative() const;
  Index With(const Term& term) const;
  // Parts the index into g * first + second with second < g, for the largest g that divides `divisor` and allows it.
  std::pair<Index, Index> Part(int64_t divisor, int64_t* g) const;

  std::vector<Term> terms_;  // in the order of their texts
  int64_t constant_ = 0;
  int64_t step_ = 0;
  int width_ = 1;
  bool opaque_ = false;
};

}  // namespace dpiframe::cuda
