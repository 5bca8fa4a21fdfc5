/* The front header: initialisation, error text, version, and everything of the runtime. */
#ifndef CONVGRAD_SDK_ACL_H
#define CONVGRAD_SDK_ACL_H

#include "acl/acl_base.h"
#include "acl/acl_mdl.h"
#include "acl/acl_op.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 17
#define ACL_PATCH_VERSION 0

/* configPath: null, or a JSON file. Calling again counts up and answers ACL_ERROR_REPEAT_INITIALIZE. */
ACL_FUNC_VISIBILITY aclError aclInit(const char *configPath);
/* Ends everything at once, however often aclInit was called. */
ACL_FUNC_VISIBILITY aclError aclFinalize(void);
/* Takes one aclInit back and tells how many are left. */
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t *refCount);
/* The calling thread's error text, newest first, taken out of the queue; null when there is none.
 * The text stays readable until the thread's next call. */
ACL_FUNC_VISIBILITY const char *aclGetRecentErrMsg(void);
ACL_FUNC_VISIBILITY aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion);
ACL_FUNC_VISIBILITY const char *aclrtGetSocName(void);

#ifdef __cplusplus
}
#endif
#endif
