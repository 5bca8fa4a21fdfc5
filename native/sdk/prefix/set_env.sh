# Environment of this prefix, under the names build and run scripts of the vendor's toolkit read. To be sourced.
if [ -n "${BASH_SOURCE:-}" ]; then
    _convgrad_file="${BASH_SOURCE[0]}"
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_convgrad_file="${(%):-%x}"'
else
    _convgrad_file="${CONVGRAD_PREFIX:?source this file from bash or zsh, or set CONVGRAD_PREFIX}/set_env.sh"
fi
CONVGRAD_PREFIX="$(cd "$(dirname "$_convgrad_file")" && pwd)"
unset _convgrad_file
export CONVGRAD_PREFIX
export ASCEND_HOME_PATH="$CONVGRAD_PREFIX"
export ASCEND_TOOLKIT_HOME="$CONVGRAD_PREFIX"
export ASCEND_OPP_PATH="$CONVGRAD_PREFIX/opp"
export LD_LIBRARY_PATH="$CONVGRAD_PREFIX/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export CMAKE_PREFIX_PATH="$CONVGRAD_PREFIX${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
export PKG_CONFIG_PATH="$CONVGRAD_PREFIX/share/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
