# The same environment as ../set_env.sh, under the name other run scripts source.
source "$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/set_env.sh"
