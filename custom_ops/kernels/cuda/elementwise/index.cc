#include "index.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace dpiframe::cuda {

Index Index::Constant(int64_t number) {
  Index index;
  index.constant_ = number;
  return index;
}

Index Index::Variable(const std::string& text, int64_t bound) {
  Index index;
  if (bound > 1) index.terms_.push_back({text, 1, bound});
  return index;
}

Index Index::Place(int width) {
  Index index;
  index.step_ = width > 1 ? 1 : 0;
  index.width_ = width;
  return index;
}

Index Index::operator+(const Index& other) const {
  Index sum = *this;
  for (const Term& term : other.terms_) {
    const auto at = std::lower_bound(sum.terms_.begin(), sum.terms_.end(), term.text,
                                     [](const Term& own, const std::string& text) { return own.text < text; });
    if (at == sum.terms_.end() || at->text != term.text) {
      sum.terms_.insert(at, term);
    } else if ((at->factor += term.factor) == 0) {
      sum.terms_.erase(at);
    }
  }
  sum.constant_ += other.constant_;
  sum.step_ += other.step_;
  sum.width_ = std::max(width_, other.width_);
  sum.opaque_ |= other.opaque_;
  return sum;
}

Index Index::Times(int64_t factor) const {
  if (factor == 0) return Constant(0);
  Index product = *this;
  for (Term& term : product.terms_) term.factor *= factor;
  product.constant_ *= factor;
  product.step_ *= factor;
  return product;
}

std::pair<Index, Index> Index::Part(int64_t divisor, int64_t* g) const {
  // The terms with the largest factors go to the first part; the place takes its turn among them.
  std::vector<const Term*> order;
  for (const Term& term : terms_) order.push_back(&term);
  const Term place{"", step_, width_};
  if (step_ != 0) order.push_back(&place);
  std::stable_sort(order.begin(), order.end(), [](const Term* a, const Term* b) { return a->factor > b->factor; });
  const auto add = [&](Index* part, const Term& term, int64_t factor) {
    if (&term == &place) {
      part->step_ = factor;
    } else {
      *part = *part + Index{}.With({term.text, factor, term.bound});
    }
    part->width_ = width_;
  };
  *g = divisor;
  for (size_t count = 0;; ++count) {
    if (count > 0) *g = std::gcd(*g, order[count - 1]->factor);
    int64_t bound = constant_ % *g + 1;
    for (size_t i = count; i < order.size(); ++i) bound += order[i]->factor * (order[i]->bound - 1);
    if (bound > *g) continue;  // ends with the last term: then only a remainder of the constant is left
    Index first = Constant(constant_ / *g);
    Index second = Constant(constant_ % *g);
    for (size_t i = 0; i < order.size(); ++i) {
      if (i < count) add(&first, *order[i], order[i]->factor / *g);
      if (i >= count) add(&second, *order[i], order[i]->factor);
    }
    return {first, second};
  }
}

std::pair<Index, Index> Index::Split(int64_t divisor) const {
  if (divisor == 1) return {*this, Constant(0)};
  if (bound() <= divisor) return {Constant(0), *this};
  Index opaque;
  opaque.opaque_ = true;
  if (opaque_) return {opaque, opaque};
  int64_t g = 1;
  Index first = *this;
  Index rest;
  if (!HasNegative()) std::tie(first, rest) = Part(divisor, &g);
  const int64_t left = divisor / g;
  if (left == 1) return {first, rest};
  if (!HasNegative() && first.bound() <= left) return {Constant(0), first.Times(g) + rest};
  if (first.step_ != 0) return {opaque, opaque};
  if (first.terms_.empty()) return {Constant(first.constant_ / left), Constant(first.constant_ % left * g) + rest};
  // Whole divisors in the constant come out of the division.
  const Index whole = Constant(HasNegative() ? 0 : first.constant_ / left);
  first.constant_ -= whole.constant_ * left;
  if (!HasNegative() && first.bound() <= left) return {whole, first.Times(g) + rest};
  const bool plain = first.terms_.size() == 1 && first.terms_[0].factor == 1 && first.constant_ == 0;
  const std::string text = plain ? first.Text() : "(" + first.Text() + ")";
  const std::string by = std::to_string(left) + "u";
  return {Variable("(" + text + " / " + by + ")", (first.bound() + left - 1) / left) + whole,
          Variable("(" + text + " % " + by + ")", left).Times(g) + rest};
}

Index Index::Within(int64_t first, int64_t count) const {
  if (opaque_ || first == 0) return *this;
  if (is_constant()) return Constant(constant_ - first);
  int64_t g = 1;
  Index big = *this;
  Index rest;
  if (!HasNegative()) std::tie(big, rest) = Part(first, &g);
  if (big.step_ != 0) {
    Index opaque;
    opaque.opaque_ = true;
    return opaque;
  }
  big.constant_ -= first / g;
  if (big.terms_.empty()) return Constant(big.constant_ * g) + rest;
  return Variable("(" + big.Text() + ")", (count + g - 1) / g).Times(g) + rest;
}

Index Index::At(int64_t place) const {
  Index index = *this;
  index.constant_ += step_ * place;
  index.step_ = 0;
  index.width_ = 1;
  return index;
}

int64_t Index::bound() const {
  int64_t most = constant_;
  for (const Term& term : terms_) most += std::max<int64_t>(term.factor, 0) * (term.bound - 1);
  return most + std::max<int64_t>(step_, 0) * (width_ - 1) + 1;
}

bool Index::IsMultipleOf(int64_t number) const {
  return constant_ % number == 0 &&
         std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) { return term.factor % number == 0; });
}

bool Index::IsVariable(const std::string& text, int64_t bound, int width) const {
  if (bound == 1 && terms_.empty()) return constant_ == 0 && !opaque_ && step_ == (width > 1 ? 1 : 0);
  return constant_ == 0 && terms_.size() == 1 && terms_[0].text == text && terms_[0].factor == width &&
         terms_[0].bound == bound && !opaque_ && step_ == (width > 1 ? 1 : 0);
}

bool Index::HasNegative() const {
  return step_ < 0 || constant_ < 0 ||
         std::any_of(terms_.begin(), terms_.end(), [](const Term& term) { return term.factor < 0; });
}

Index Index::With(const Term& term) const {
  Index index = *this;
  index.terms_ = {term};
  return index;
}

std::string Index::AddressText() const {
  // Only the sum of all is sure not to be below 0 where terms are subtracted.
  if (terms_.empty() || constant_ == 0 || HasNegative()) return Text();
  Index rest = *this;
  rest.constant_ = 0;
  return "(" + rest.Text() + ") + " + std::to_string(constant_);
}

std::string Index::Text() const {
  std::string text;
  const auto add = [&](int64_t number, const std::string& of) {
    const int64_t size = number < 0 ? -number : number;
    if (!text.empty()) text += number < 0 ? " - " : " + ";
    if (text.empty() && number < 0) text = "0u - ";
    text += of;
    if (of.empty() || size != 1) text += (of.empty() ? "" : " * ") + std::to_string(size) + "u";
  };
  for (const Term& term : terms_) add(term.factor, term.text);
  if (constant_ != 0 || text.empty()) add(constant_, "");
  return text;
}

}  // namespace dpiframe::cuda
