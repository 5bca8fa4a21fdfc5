// The JSON file aclInit and aclnnInit accept. Only one setting means something here: "err_msg_mode".
#pragma once

namespace convgrad {

struct Config {
    bool share_messages = false;  // "err_msg_mode": "1"
};

// Reads `path` (null: nothing to read). Gives 0, or the status that describes what is wrong with the file.
int read_config(const char* path, Config* config);

}  // namespace convgrad
