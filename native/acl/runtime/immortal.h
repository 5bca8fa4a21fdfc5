// State that lives from the load of the library to the end of the process. It is never destroyed: destructors, exit
// handlers and threads of the program may call in until the very end. It is made when the library is loaded: a static
// made at its first use would allocate in a call that cannot fail, and could be torn by fork().
#pragma once

#include <new>

namespace convgrad {

template <class State> class Immortal {
public:
    Immortal() noexcept { new (storage_) State; }
    State& operator*() noexcept { return *std::launder(reinterpret_cast<State*>(storage_)); }
    State* operator->() noexcept { return &**this; }

private:
    alignas(State) unsigned char storage_[sizeof(State)];
};

}  // namespace convgrad
