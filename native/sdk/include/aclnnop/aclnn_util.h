/* How an operator's functions are exported. */
#ifndef CONVGRAD_SDK_ACLNN_UTIL_H
#define CONVGRAD_SDK_ACLNN_UTIL_H
#include "acl/acl_base.h"
#ifndef ACLNN_API
#define ACLNN_API ACL_FUNC_VISIBILITY
#endif
#endif
