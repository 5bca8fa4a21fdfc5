"""Rows: every status and code that users of these operators meet in logs, what it means and what to try.

The numbers and names are the vendor's, of aclnn, of the runtime and of its error messages; the words are ours. Which rows
of the contract give a code is not told here: the rows know.
"""
# One row a line, in two languages.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One code: `here` says where this project's C library gives it, beside the rows of the contract."""

    code: str
    name: str
    en: str
    zh: str
    try_en: str
    try_zh: str
    here: str = ""


# What to try, by family; a row may know better.
_PARAMETER = ("call aclGetRecentErrMsg: it names the argument; `convgrad explain` with the problem line says the way out",
              "调用 aclGetRecentErrMsg 查看出错的参数；用 convgrad explain 加问题行查看修改办法")  # fmt: skip
_INSTALL = ("the operator package does not fit: check that toolkit, operator package (opp) and driver have one version, "
            "and that ASCEND_OPP_PATH points to it",
            "算子包不匹配：检查 toolkit、算子包（opp）与驱动版本是否一致，ASCEND_OPP_PATH 是否正确")  # fmt: skip
_CALLER = ("check the call named in the log: handle alive, right device and context, numbers in range",
           "检查日志中的调用：句柄有效、设备与 context 正确、数值在范围内")  # fmt: skip
_RESOURCE = ("free what is no longer used, or use less at a time", "释放不再使用的资源，或减少同时占用的数量")
_DEVICE = ("read the device log around this line; repeat with aclrtSynchronizeStream after each call to find the kernel; "
           "if it stays, reset the device or ask the vendor's support",
           "查看该行附近的 device 日志；在每次调用后执行 aclrtSynchronizeStream 以定位 kernel；若仍出现请复位设备或联系技术支持")  # fmt: skip
_REPORT = ("an error inside the vendor's software: keep the log and the problem line, and ask its support",
           "厂商软件内部错误：保留日志与问题行并联系技术支持")  # fmt: skip
_LIMIT = ("a value is beyond what the kernels take: compare it with the documented limits "
          "(`convgrad check` with the problem line), split the call or choose another product",
          "数值超出 kernel 支持的范围：用 convgrad check 加问题行对照文档限制，拆分调用或更换产品")  # fmt: skip
_MEMORY = ("device memory ran out or an address is not device memory: check sizes, aclrtMalloc and aclrtFree",
           "设备内存不足或地址不在设备内存中：检查大小以及 aclrtMalloc、aclrtFree")  # fmt: skip


def _rows(family: tuple[str, str], text: str, here: str = "") -> tuple[Code, ...]:
    """Rows of one family: `code NAME | English | Chinese` a line."""
    rows = []
    for line in text.strip().splitlines():
        head, english, chinese = (part.strip() for part in line.split("|"))
        code, name = head.split()
        rows.append(Code(code, name, english, chinese, *family, here))
    return tuple(rows)


CODES: tuple[Code, ...] = (
    Code("0", "ACLNN_SUCCESS", "success", "成功", "nothing", "无"),
    *_rows(_PARAMETER, """
161001 ACLNN_ERR_PARAM_NULLPTR | a pointer that is needed is null | 必需的指针为空
161002 ACLNN_ERR_PARAM_INVALID | an argument is not supported: dtype, format, shape, attribute or product | 参数校验错误：数据类型、数据格式、shape、属性或产品不支持
""", "phase 1"),
    *_rows(_MEMORY, """
361001 ACLNN_ERR_RUNTIME_ERROR | a runtime call made for the operator failed | 算子调用 runtime 接口时出错
""", "phase 2: an address that is no device memory, an executor used twice, no memory left"),
    *_rows(_REPORT, """
561000 ACLNN_ERR_INNER | an internal error without a closer name | 内部异常
561001 ACLNN_ERR_INNER_INFERSHAPE_ERROR | the output shape could not be inferred | 内部 infershape 出错
561002 ACLNN_ERR_INNER_TILING_ERROR | no tiling was found for the shapes | 内部 tiling 出错
"""),
    *_rows(_INSTALL, """
561003 ACLNN_ERR_INNER_FIND_KERNEL_ERROR | no kernel binary for this product, dtype and format | 内部查找 kernel 二进制出错
"""),
    *_rows(_RESOURCE, """
561101 ACLNN_ERR_INNER_CREATE_EXECUTOR | the executor could not be made | 创建 aclOpExecutor 失败
""", "phase 1, without memory"),
    *_rows(_REPORT, """
561102 ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR | the executor was not handed over by ReleaseTo | 未调用 uniqueExecutor 的 ReleaseTo
"""),
    *_rows(_LIMIT, """
561103 ACLNN_ERR_INNER_NULLPTR | a later step of phase 1 gave nothing: mostly a value beyond the kernels' limits | 内部校验出现空指针，通常由于输入数据或属性的规格不在支持的范围之内
"""),
    *_rows(_INSTALL, """
561104 ACLNN_ERR_INNER_WRONG_ATTR_INFO_SIZE | the number of attributes differs from the kernel's description | 算子属性个数与描述不符
561105 ACLNN_ERR_INNER_KEY_CONFLICT | two kernels have one key (older headers: KEY_CONFILICT) | kernel 匹配的 key 冲突
561106 ACLNN_ERR_INNER_INVALID_IMPL_MODE | the implementation mode is not known | 算子实现模式参数错误
561107 ACLNN_ERR_INNER_OPP_PATH_NOT_FOUND | ASCEND_OPP_PATH is not set | 未检测到环境变量 ASCEND_OPP_PATH
561108 ACLNN_ERR_INNER_LOAD_JSON_FAILED | a kernel's description file could not be read | 加载算子信息库的 JSON 文件失败
561109 ACLNN_ERR_INNER_JSON_VALUE_NOT_FOUND | a field of a kernel's description is missing | 算子信息库 JSON 文件缺少字段
561110 ACLNN_ERR_INNER_JSON_FORMAT_INVALID | a format in a kernel's description is not known | 算子信息库 JSON 文件中 format 非法
561111 ACLNN_ERR_INNER_JSON_DTYPE_INVALID | a dtype in a kernel's description is not known | 算子信息库 JSON 文件中 dtype 非法
561112 ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND | the kernels of this product are not installed | 未安装当前产品的算子二进制包
561113 ACLNN_ERR_INNER_OP_FILE_INVALID | a kernel's file could not be read | 加载算子文件出错
561114 ACLNN_ERR_INNER_ATTR_NUM_OUT_OF_BOUND | more attributes than the kernel's description has | 属性个数超出信息库描述
561115 ACLNN_ERR_INNER_ATTR_LEN_NOT_ENOUGH | fewer attributes than the kernel's description has | 属性个数少于信息库描述
561116 ACLNN_ERR_INNER_INPUT_NUM_IN_JSON_TOO_LARGE | a kernel's description has more than 32 inputs | 信息库 JSON 文件中输入个数超过 32
561117 ACLNN_ERR_INNER_INPUT_JSON_IS_NULL | an input of a kernel's description is empty | 信息库 JSON 文件中输入描述为空
561118 ACLNN_ERR_INNER_STATIC_WORKSPACE_INVALID | the workspace of a static kernel cannot be read | 静态 kernel 的 workspace 解析出错
561119 ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID | the block count of a static kernel cannot be read | 静态 kernel 的 blockDim 解析出错
"""),
    *_rows(_CALLER, """
100000 ACL_ERROR_INVALID_PARAM | an argument of an acl call is wrong | acl 接口参数错误
100001 ACL_ERROR_UNINITIALIZE | aclInit was not called | 未调用 aclInit
100002 ACL_ERROR_REPEAT_INITIALIZE | aclInit was called twice | 重复调用 aclInit
100003 ACL_ERROR_INVALID_FILE | the configuration file cannot be opened | 无效的配置文件
100005 ACL_ERROR_INVALID_FILE_SIZE | the configuration file is too large | 配置文件大小无效
100006 ACL_ERROR_PARSE_FILE | the configuration file is no JSON of the right form | 解析配置文件失败
100037 ACL_ERROR_REPEAT_FINALIZE | aclFinalize was called twice | 重复调用 aclFinalize
""", "runtime calls"),
    *_rows(_RESOURCE, "200000 ACL_ERROR_BAD_ALLOC | no memory for an object | 申请内存失败", "runtime calls, without memory"),
    *_rows(_REPORT, """
500000 ACL_ERROR_INTERNAL_ERROR | an internal error of acl | 未知内部错误
500002 ACL_ERROR_GE_FAILURE | an error inside the graph engine | 图引擎内部错误
500003 ACL_ERROR_RT_FAILURE | an error inside the runtime | runtime 内部错误
500004 ACL_ERROR_DRV_FAILURE | an error inside the driver | 驱动内部错误
"""),
    *_rows(_CALLER, """
107000 ACL_ERROR_RT_PARAM_INVALID | an argument of a runtime call is wrong | 参数校验失败
107001 ACL_ERROR_RT_INVALID_DEVICEID | no such device | 无效的 Device ID
107002 ACL_ERROR_RT_CONTEXT_NULL | this thread has no context: aclrtSetDevice was not called, or the device was reset | context 为空：未调用 aclrtSetDevice 或设备已复位
107006 ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID | an event has no time: it was never recorded | event 时间戳无效
107007 ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL | the later event was recorded first | event 时间戳反转
107017 ACL_ERROR_RT_INVALID_HANDLE | a stream, event or other handle is not alive | 无效的 handle
107021 ACL_ERROR_RT_SYSPARAMOPT_NOT_SET | a system parameter is read before it was set | 未设置系统参数值
""", "runtime calls"),
    *_rows(_CALLER, """
107003 ACL_ERROR_RT_STREAM_CONTEXT | the stream belongs to another context | stream 不在当前 context 内
107004 ACL_ERROR_RT_MODEL_CONTEXT | the model belongs to another context | model 不在当前 context 内
107005 ACL_ERROR_RT_STREAM_MODEL | the stream belongs to no such model | stream 不在当前 model 内
107008 ACL_ERROR_RT_ADDR_UNALIGNED | an address is not aligned | 内存地址未对齐
107009 ACL_ERROR_RT_FILE_OPEN | a file cannot be opened | 打开文件失败
107010 ACL_ERROR_RT_FILE_WRITE | a file cannot be written | 写文件失败
107011 ACL_ERROR_RT_STREAM_SUBSCRIBE | the stream is not subscribed, or twice | stream 未订阅或重复订阅
107012 ACL_ERROR_RT_THREAD_SUBSCRIBE | the thread is not subscribed, or twice | 线程未订阅或重复订阅
107013 ACL_ERROR_RT_GROUP_NOT_SET | no group was set | group 未设置
107014 ACL_ERROR_RT_GROUP_NOT_CREATE | no group was made | group 未创建
107015 ACL_ERROR_RT_STREAM_NO_CB_REG | no callback is registered for the stream | stream 未注册回调
107016 ACL_ERROR_RT_INVALID_MEMORY_TYPE | the kind of memory is wrong | 无效的内存类型
107018 ACL_ERROR_RT_INVALID_MALLOC_TYPE | the memory was allocated by another call | 申请内存的类型不正确
107019 ACL_ERROR_RT_WAIT_TIMEOUT | waiting took too long | 等待超时
107020 ACL_ERROR_RT_TASK_TIMEOUT | a task took too long | 任务执行超时
107022 ACL_ERROR_RT_DEVICE_TASK_ABORT | tasks of the device are being aborted | device 上的任务被终止
107023 ACL_ERROR_RT_STREAM_ABORT | tasks of the stream are being aborted | stream 上的任务被终止
"""),
    *_rows(_RESOURCE, """
207001 ACL_ERROR_RT_MEMORY_ALLOCATION | memory could not be allocated | 内存申请失败
207002 ACL_ERROR_RT_MEMORY_FREE | memory could not be freed: no live allocation begins there | 内存释放失败
""", "runtime calls"),
    *_rows(_CALLER, "207000 ACL_ERROR_RT_FEATURE_NOT_SUPPORT | this product does not have the feature | 特性不支持", "runtime calls"),
    *_rows(_RESOURCE, """
207003 ACL_ERROR_RT_AICORE_OVER_FLOW | a kernel computed an overflow (float16 beyond 65504) and overflow checks are on | AI Core 算子运算溢出
207004 ACL_ERROR_RT_NO_DEVICE | no device is available | device 不可用
207005 ACL_ERROR_RT_RESOURCE_ALLOC_FAIL | a resource could not be allocated | 资源申请失败
207006 ACL_ERROR_RT_NO_PERMISSION | the user may not do this | 没有操作权限
207007 ACL_ERROR_RT_NO_EVENT_RESOURCE | no event is left | event 资源不足
207008 ACL_ERROR_RT_NO_STREAM_RESOURCE | no stream is left | stream 资源不足
207009 ACL_ERROR_RT_NO_NOTIFY_RESOURCE | no notify is left | notify 资源不足
207010 ACL_ERROR_RT_NO_MODEL_RESOURCE | no model is left | model 资源不足
207011 ACL_ERROR_RT_NO_CDQ_RESOURCE | no queue is left | cdq 资源不足
207012 ACL_ERROR_RT_OVER_LIMIT | more than the limit | 队列超出上限
207013 ACL_ERROR_RT_QUEUE_EMPTY | the queue is empty | 队列为空
207014 ACL_ERROR_RT_QUEUE_FULL | the queue is full | 队列已满
207015 ACL_ERROR_RT_REPEATED_INIT | initialised twice | 队列重复初始化
207016 ACL_ERROR_RT_AIVEC_OVER_FLOW | a vector kernel computed an overflow and overflow checks are on | AI Vector 算子运算溢出
207017 ACL_ERROR_RT_OVER_FLOW | a kernel computed an overflow and overflow checks are on | 算子运算溢出
207018 ACL_ERROR_RT_DEVICE_OOM | the device has no memory left | device 内存不足
"""),
    *_rows(_DEVICE, """
507000 ACL_ERROR_RT_INTERNAL_ERROR | an internal error of the runtime | runtime 模块内部错误
507001 ACL_ERROR_RT_TS_ERROR | an error inside the task scheduler | task scheduler 内部错误
507002 ACL_ERROR_RT_STREAM_TASK_FULL | the stream holds as many tasks as it can | stream 上的任务已满
507003 ACL_ERROR_RT_STREAM_TASK_EMPTY | the stream holds no task | stream 上没有任务
507004 ACL_ERROR_RT_STREAM_NOT_COMPLETE | tasks of the stream are still running | stream 上的任务未完成
507005 ACL_ERROR_RT_END_OF_SEQUENCE | the tasks of the task queue are done | 任务执行完成
507006 ACL_ERROR_RT_EVENT_NOT_COMPLETE | the event has not happened yet | event 未完成
507007 ACL_ERROR_RT_CONTEXT_RELEASE_ERROR | a context could not be released | context 释放失败
507008 ACL_ERROR_RT_SOC_VERSION | the SoC version could not be read | 获取 SoC 版本失败
507009 ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT | the kind of task is not supported | 不支持的任务类型
507010 ACL_ERROR_RT_LOST_HEARTBEAT | the task scheduler does not answer | task scheduler 丢失心跳
507011 ACL_ERROR_RT_MODEL_EXECUTE | a model failed | 模型执行失败
507012 ACL_ERROR_RT_REPORT_TIMEOUT | a report of the task scheduler came too late | 获取 task scheduler 的消息超时
507013 ACL_ERROR_RT_SYS_DMA | an error of the system DMA | system dma 硬件执行错误
507014 ACL_ERROR_RT_AICORE_TIMEOUT | a kernel ran too long on an AI Core | AI Core 执行超时
507015 ACL_ERROR_RT_AICORE_EXCEPTION | a kernel failed on an AI Core: mostly an address outside of its tensor | AI Core 执行异常，多为访问越界
507016 ACL_ERROR_RT_AICORE_TRAP_EXCEPTION | a kernel trapped on an AI Core | AI Core trap 异常
507017 ACL_ERROR_RT_AICPU_TIMEOUT | an AI CPU task ran too long | AI CPU 执行超时
507018 ACL_ERROR_RT_AICPU_EXCEPTION | an AI CPU task failed | AI CPU 执行异常
507019 ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR | dumping data failed on the AI CPU | AI CPU 数据 dump 异常
507020 ACL_ERROR_RT_AICPU_MODEL_RSP_ERR | a model operation failed on the AI CPU | AI CPU 模型执行异常
507021 ACL_ERROR_RT_PROFILING_ERROR | profiling failed | profiling 功能异常
507022 ACL_ERROR_RT_IPC_ERROR | processes could not talk to each other | 进程间通信异常
507023 ACL_ERROR_RT_MODEL_ABORT_NORMAL | the model was left | 模型退出
507024 ACL_ERROR_RT_KERNEL_UNREGISTERING | the kernel is being unregistered | 算子正在去注册
507025 ACL_ERROR_RT_RINGBUFFER_NOT_INIT | the ring buffer is not initialised | ringbuffer 未初始化
507026 ACL_ERROR_RT_RINGBUFFER_NO_DATA | the ring buffer holds nothing | ringbuffer 没有数据
507027 ACL_ERROR_RT_KERNEL_LOOKUP | the runtime has no such kernel | 未找到 kernel
507028 ACL_ERROR_RT_KERNEL_DUPLICATE | the kernel is registered twice | 重复注册 kernel
507029 ACL_ERROR_RT_DEBUG_REGISTER_FAIL | the debugger could not be registered | debug 注册失败
507030 ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL | the debugger could not be unregistered | debug 去注册失败
507031 ACL_ERROR_RT_LABEL_CONTEXT | the label belongs to another context | 标签不在当前 context 内
507032 ACL_ERROR_RT_PROGRAM_USE_OUT | more programs are registered than there is room for | 注册的 program 数量超过限制
507033 ACL_ERROR_RT_DEV_SETUP_ERROR | the device could not be started | device 启动失败
507034 ACL_ERROR_RT_VECTOR_CORE_TIMEOUT | a kernel ran too long on a vector core | vector core 执行超时
507035 ACL_ERROR_RT_VECTOR_CORE_EXCEPTION | a kernel failed on a vector core: mostly an address outside of its tensor | vector core 执行异常
507036 ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION | a kernel trapped on a vector core | vector core trap 异常
507037 ACL_ERROR_RT_CDQ_BATCH_ABNORMAL | a batch of a queue failed | cdq 的 batch 申请异常
507038 ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR | the die mode cannot be changed | die 模式切换异常
507039 ACL_ERROR_RT_DIE_SET_ERROR | a single die cannot be set | 单 die 模式设置异常
507040 ACL_ERROR_RT_INVALID_DIEID | no such die | 错误的 die ID
507041 ACL_ERROR_RT_DIE_MODE_NOT_SET | the die mode was not set | 未设置 die 模式
507042 ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW | a kernel read outside of its memory on an AI Core | AI Core 读越界
507043 ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW | a kernel wrote outside of its memory on an AI Core | AI Core 写越界
507044 ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW | a kernel read outside of its memory on a vector core | vector core 读越界
507045 ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW | a kernel wrote outside of its memory on a vector core | vector core 写越界
507046 ACL_ERROR_RT_STREAM_SYNC_TIMEOUT | the stream was not done in time | stream 同步超时
507047 ACL_ERROR_RT_EVENT_SYNC_TIMEOUT | the event did not happen in time | event 同步超时
507048 ACL_ERROR_RT_FFTS_PLUS_TIMEOUT | a task graph ran too long | FFTS+ 内部执行超时
507049 ACL_ERROR_RT_FFTS_PLUS_EXCEPTION | a task graph failed | FFTS+ 内部执行异常
507050 ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION | a task graph trapped | FFTS+ trap 异常
507051 ACL_ERROR_RT_SEND_MSG | a message could not be sent | 数据发送失败
507052 ACL_ERROR_RT_COPY_DATA | data could not be copied: mostly a wrong address or size | 数据拷贝失败
507053 ACL_ERROR_RT_DEVICE_MEM_ERROR | an address of device memory is not mapped, or memory is broken | 设备内存访问异常
507054 ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR | memory of the device is broken (several bits) | HBM 比特 ECC 故障
507055 ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR | memory of the device may be broken | 可能的设备内存故障
507056 ACL_ERROR_RT_LINK_ERROR | a link between devices is broken | 设备间链路故障
507057 ACL_ERROR_RT_SUSPECT_REMOTE_ERROR | another device may be broken | 可能的对端故障
507899 ACL_ERROR_RT_DRV_INTERNAL_ERROR | an internal error of the driver | 驱动内部错误
507900 ACL_ERROR_RT_AICPU_INTERNAL_ERROR | an internal error of the AI CPU | AI CPU 内部错误
507901 ACL_ERROR_RT_SOCKET_CLOSE | the connection to the host was closed | 断开连接
"""),
    *_rows(_PARAMETER, """
EZ1001 AclNN_Parameter_Error | the class of messages that come with 161001 and 161002 | 161001、161002 对应的错误信息类别
""", "aclGetRecentErrMsg"),
    *_rows(_MEMORY, """
EZ9903 AclNN_Runtime_Error | the class of messages that come with 361001 | 361001 对应的错误信息类别
""", "aclGetRecentErrMsg"),
    *_rows(_LIMIT, """
EZ9999 AclNN_Inner_Error | the class of messages that come with 561xxx: mostly a value beyond the kernels' limits | 561xxx 对应的错误信息类别，通常由于规格超出范围
""", "aclGetRecentErrMsg"),
)  # fmt: skip

BY_CODE: dict[str, Code] = {row.code: row for row in CODES}
_BY_NAME = {row.name.upper(): row for row in CODES}


def find(text: str) -> Code | None:
    """The row of a code or of a name, in any case, with or without `ACLNN_ERR_` and `ACL_ERROR_`."""
    key = text.strip().upper()
    for name in (key, f"ACLNN_ERR_{key}", f"ACL_ERROR_{key}", f"ACL_ERROR_RT_{key}", f"ACLNN_{key}"):
        row = BY_CODE.get(name) or _BY_NAME.get(name)
        if row is not None:
            return row
    return None
