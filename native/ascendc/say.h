// Text from numbers, as printf writes it.
#pragma once

#include <string>

namespace convgrad {
namespace tile {

std::string say(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace tile
}  // namespace convgrad
