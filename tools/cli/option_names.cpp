#include "cli/option_names.h"

namespace megaflux::cli {

Error about_option(const Error& error, const OptionNames& names) {
  const std::string message = error.what();
  const std::string field = message.substr(0, message.find(':'));
  for (const OptionName& name : names) {
    if (name.field != field) continue;
    return Error(error.code(), name.option + message.substr(field.size()));
  }
  return error;
}

}  // namespace megaflux::cli
