# find_package(tikicpulib): the targets that build files for kernels in CPU mode link, all of them convgrad::ascendc.
include("${CMAKE_CURRENT_LIST_DIR}/../convgrad/convgrad-config.cmake")
foreach(SOC Ascend910B1 Ascend910B2 Ascend910B2C Ascend910B3 Ascend910B4 Ascend910B4-1 Ascend910_9391 Ascend910_9381
            Ascend910_9372 Ascend910_9392 Ascend910_9382 Ascend910_9362)
  if(NOT TARGET tikicpulib::${SOC})
    add_library(tikicpulib::${SOC} INTERFACE IMPORTED)
    set_target_properties(tikicpulib::${SOC} PROPERTIES INTERFACE_LINK_LIBRARIES convgrad::ascendc)
  endif()
endforeach()
