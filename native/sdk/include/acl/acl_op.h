/* Single-operator loading is not part of this library; the header exists so that an #include of it compiles. */
#ifndef CONVGRAD_SDK_ACL_OP_H
#define CONVGRAD_SDK_ACL_OP_H
#include "acl/acl_base.h"
#include "acl/acl_rt.h"
#endif
