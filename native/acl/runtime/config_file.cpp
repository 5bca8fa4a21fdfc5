#include "runtime/config_file.h"

#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "acl/acl_base.h"
#include "runtime/errors.h"

namespace convgrad {
namespace {

constexpr int kDeepestNesting = 64;
constexpr size_t kLargestFile = size_t{10} << 20;

// A JSON reader that checks the grammar and remembers the top-level strings it meets.
class Reader {
public:
    Reader(const std::string& text, Config* config) : text_(text), config_(config) {}

    bool document() {
        skip_space();
        return peek() == '{' && value(0) && (skip_space(), at_ == text_.size());
    }

private:
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(char wanted) { return peek() == wanted && ++at_; }
    void skip_space() {
        while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_])) ++at_;
    }

    bool string(std::string* out) {
        if (!take('"')) return false;
        while (at_ < text_.size() && text_[at_] != '"') {
            if (text_[at_] == '\\' && ++at_ >= text_.size()) return false;
            *out += text_[at_++];
        }
        return take('"');
    }

    bool scalar(std::string* out) {  // a number, true, false or null
        while (std::isalnum(static_cast<unsigned char>(peek())) || (peek() && std::strchr("+-.", peek())))
            *out += text_[at_++];
        if (*out == "true" || *out == "false" || *out == "null") return true;
        char* end = nullptr;
        if (out->empty() || std::isalpha(static_cast<unsigned char>((*out)[0]))) return false;
        std::strtod(out->c_str(), &end);
        return *end == '\0';
    }

    bool object(int depth) {
        skip_space();
        if (take('}')) return true;
        do {
            std::string key, text;
            skip_space();
            if (!string(&key) || (skip_space(), !take(':'))) return false;
            skip_space();
            const bool is_string = peek() == '"';
            if (is_string ? !string(&text) : !value(depth)) return false;
            if (depth == 1 && key == "err_msg_mode" && text == "1") config_->share_messages = true;
            skip_space();
        } while (take(','));
        return take('}');
    }

    bool array(int depth) {
        skip_space();
        if (take(']')) return true;
        do {
            if (!value(depth)) return false;
            skip_space();
        } while (take(','));
        return take(']');
    }

    bool value(int depth) {
        if (depth > kDeepestNesting) return false;
        skip_space();
        std::string text;
        if (peek() == '"') return string(&text);
        if (take('{')) return object(depth + 1);
        if (take('[')) return array(depth + 1);
        return scalar(&text);
    }

    const std::string& text_;
    Config* config_;
    size_t at_ = 0;
};

}  // namespace

int read_config(const char* path, Config* config) {
    if (!path || !*path) return 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) return fail(ACL_ERROR_INVALID_FILE, "the configuration file %s cannot be read", path);
    std::string text;
    for (char byte; text.size() <= kLargestFile && file.get(byte);) text += byte;
    if (text.size() > kLargestFile)
        return fail(ACL_ERROR_INVALID_FILE_SIZE, "the configuration file %s is larger than 10 MiB", path);
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return 0;
    if (!Reader(text, config).document())
        return fail(ACL_ERROR_PARSE_FILE, "the configuration file %s is not a JSON object", path);
    return 0;
}

}  // namespace convgrad
