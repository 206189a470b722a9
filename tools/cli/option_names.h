// The library names the fields of its structs, the user of the program knows options: an error
// about a field becomes one about the option that fills it.
//
//   naming_options({{"topk", "--topk"}}, [&] { return resolve_config(config, 1); });
//
// turns "topk: 65 is outside [1, 64]" into "--topk: 65 is outside [1, 64]".
#pragma once

#include <string>
#include <vector>

#include "megaflux/base/check.h"

namespace megaflux::cli {

struct OptionName {
  std::string field;
  std::string option;
};
using OptionNames = std::vector<OptionName>;

// The same error, about the option if it is about a field of `names`.
Error about_option(const Error& error, const OptionNames& names);

// What `act` returns; its errors by the names of options.
template <typename Act>
auto naming_options(const OptionNames& names, Act&& act) {
  try {
    return act();
  } catch (const Error& error) {
    throw about_option(error, names);
  }
}

// What `act` returns; its errors open with `argument`, as those about a file that it names do:
// "FILE: loads.csv: cannot be read: ...".
template <typename Act>
auto naming_argument(const std::string& argument, Act&& act) {
  try {
    return act();
  } catch (const Error& error) {
    throw Error(error.code(), argument + ": " + error.what());
  }
}

}  // namespace megaflux::cli
