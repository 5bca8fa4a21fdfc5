# find_package(convgrad) gives one target: convgrad::aclnn, the headers and the library of this prefix.
get_filename_component(CONVGRAD_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET convgrad::aclnn)
  add_library(convgrad::aclnn SHARED IMPORTED)
  set_target_properties(convgrad::aclnn PROPERTIES
    IMPORTED_LOCATION "${CONVGRAD_PREFIX}/lib64/libconvgrad.so"
    IMPORTED_SONAME "libconvgrad.so"
    INTERFACE_INCLUDE_DIRECTORIES
      "${CONVGRAD_PREFIX}/include;${CONVGRAD_PREFIX}/include/aclnn;${CONVGRAD_PREFIX}/include/aclnnop")
endif()
