#include "convert/json_arrays.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "convert/nested_list.h"
#include "megaflux/base/check.h"

namespace megaflux::convert {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kRecords = "records";

class ArrayHandler final : public nlohmann::json_sax<Json> {
 public:
  ArrayHandler(const std::string& name, const std::function<bool(std::string_view)>& is_wanted)
      : name_(name), is_wanted_(is_wanted) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a truth value"); }
  bool string(string_t&) override { return other("text"); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override { return number(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    // Tensors of floating point write whole numbers as 12.0.
    if (!is_taking()) return true;
    MF_CHECK(std::trunc(value) == value && std::abs(value) < 0x1p53, where(), ": ", text,
             " is no whole number");
    return number(static_cast<int64_t>(value));
  }

  bool start_array(size_t) override {
    if (list_) {
      list_->open();
    } else if (skipped_ == 0 && depth_ == 1 && key_ == kRecords) {
      MF_CHECK(!is_in_records_, name_, ": lists in the list ", kRecords);
      is_in_records_ = true;
      key_.clear();
    } else if (skipped_ == 0 && ((depth_ > 0 && is_wanted_(key_)) || depth_ == 0)) {
      list_.emplace(where());
      list_->open();
    } else {
      ++skipped_;
    }
    return true;
  }
  bool end_array() override {
    if (skipped_ > 0) {
      --skipped_;
    } else if (!list_) {
      is_in_records_ = false;
    } else if (list_->close()) {
      keep(list_->take());
      list_.reset();
    }
    return true;
  }
  bool start_object(size_t) override {
    MF_CHECK(!list_, where(), ": an object among numbers");
    const bool is_record = is_in_records_ && depth_ == 1;
    if (skipped_ > 0 || !(depth_ == 0 || is_record)) {
      ++skipped_;
      return true;
    }
    if (is_record) result_.records.emplace_back();
    ++depth_;
    key_.clear();
    return true;
  }
  bool end_object() override {
    if (skipped_ > 0) {
      --skipped_;
    } else {
      --depth_;
      key_.clear();
    }
    return true;
  }
  bool key(string_t& text) override {
    if (skipped_ == 0) key_ = text;
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw_error(ErrorCode::kBadInput, name_, ": no JSON from byte ", position, " on");
  }

  JsonArrays take() { return std::move(result_); }

 private:
  std::string where() const {
    std::string text = name_;
    if (depth_ == 2) text += ": record " + std::to_string(result_.records.size() - 1);
    return depth_ == 0 ? text : text + ": " + key_;
  }
  bool is_taking() const {
    return list_.has_value() || (skipped_ == 0 && depth_ > 0 && !key_.empty() && is_wanted_(key_));
  }
  bool other(const char* what) const {
    MF_CHECK(!list_, where(), ": ", what, " among numbers");
    return true;
  }
  template <typename Number>
  bool number(Number value) {
    if (!is_taking()) return true;
    MF_CHECK(std::in_range<int32_t>(value), where(), ": ", value, " is outside [",
             std::numeric_limits<int32_t>::min(), ", ", std::numeric_limits<int32_t>::max(), "]");
    MF_CHECK(++num_numbers_ <= kMaxElements, name_, ": more than ", kMaxElements, " numbers");
    if (list_) {
      list_->number(static_cast<int32_t>(value));
    } else {
      keep({.shape = {}, .values = {static_cast<int32_t>(value)}});
    }
    return true;
  }
  void keep(NumberArray array) {
    ArraysByName& arrays = depth_ == 2 ? result_.records.back() : result_.top;
    const bool is_first = arrays.emplace(key_, std::move(array)).second;
    MF_CHECK(is_first, where(), " stands twice");
  }

  const std::string& name_;
  const std::function<bool(std::string_view)>& is_wanted_;
  JsonArrays result_;
  std::optional<NestedList> list_;  // the wanted list that is open
  std::string key_;
  int depth_ = 0;       // objects that are open and looked into: 1 = the file's, 2 = a record
  size_t skipped_ = 0;  // objects and lists that are open and passed over
  bool is_in_records_ = false;
  int64_t num_numbers_ = 0;
};

}  // namespace

JsonArrays parse_json_arrays(std::string_view text, const std::string& name,
                             const std::function<bool(std::string_view)>& is_wanted) {
  MF_CHECK(text.size() <= kMaxJsonBytes, name, ": ", text.size(), " bytes, at most ", kMaxJsonBytes,
           " are read");
  ArrayHandler handler(name, is_wanted);
  Json::sax_parse(text, &handler);
  return handler.take();
}

}  // namespace megaflux::convert
