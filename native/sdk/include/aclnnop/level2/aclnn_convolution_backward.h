/* The same header under the directory name of some toolkit releases. */
#include "aclnnop/aclnn_convolution_backward.h"
