# find_package(convgrad) gives two targets with the headers and the library of this prefix: convgrad::aclnn for programs
# that call aclnn, convgrad::ascendc for Ascend C kernels and what launches them.
get_filename_component(CONVGRAD_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET convgrad::aclnn)
  add_library(convgrad::aclnn SHARED IMPORTED)
  set_target_properties(convgrad::aclnn PROPERTIES
    IMPORTED_LOCATION "${CONVGRAD_PREFIX}/lib64/libconvgrad.so"
    IMPORTED_SONAME "libconvgrad.so"
    INTERFACE_INCLUDE_DIRECTORIES
      "${CONVGRAD_PREFIX}/include;${CONVGRAD_PREFIX}/include/aclnn;${CONVGRAD_PREFIX}/include/aclnnop")
endif()
if(NOT TARGET convgrad::ascendc)
  find_package(Threads REQUIRED)
  add_library(convgrad::ascendc INTERFACE IMPORTED)
  set_target_properties(convgrad::ascendc PROPERTIES
    INTERFACE_LINK_LIBRARIES "convgrad::aclnn;Threads::Threads"
    INTERFACE_COMPILE_FEATURES cxx_std_17
    INTERFACE_COMPILE_DEFINITIONS "ASCENDC_CPU_DEBUG=1;__NPU_ARCH__=2201")
endif()
