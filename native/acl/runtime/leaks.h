#pragma once

namespace convgrad {

// Strict mode: prints what is still alive when the program ends its use of the library.
void list_leaks();

}  // namespace convgrad
