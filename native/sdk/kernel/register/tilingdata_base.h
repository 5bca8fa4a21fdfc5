/* Tiling records of a program's own: BEGIN_TILING_DATA_DEF ... END_TILING_DATA_DEF.
 *
 * A record is a plain class: its fields in order, 0 at first, aligned as C aligns them. The host uses get_ and set_ and
 * SaveToBuffer, a kernel the fields themselves; the bytes are the same. */
#ifndef CONVGRAD_TILINGDATA_BASE_H
#define CONVGRAD_TILINGDATA_BASE_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#define BEGIN_TILING_DATA_DEF(class_name)                                                \
    class class_name {                                                                   \
        using cgt_record = class_name;                                                   \
                                                                                         \
    public:                                                                              \
        size_t GetDataSize() const { return sizeof(cgt_record); }                        \
        void SaveToBuffer(void *cgt_to, size_t cgt_capacity) const {                     \
            if (cgt_to && cgt_capacity >= sizeof(cgt_record))                            \
                std::memcpy(cgt_to, static_cast<const void *>(this), sizeof(cgt_record)); \
        }
#define TILING_DATA_FIELD_DEF(data_type, field_name)                          \
    data_type get_##field_name() const { return field_name; }                 \
    void set_##field_name(data_type cgt_value) { field_name = cgt_value; }    \
    data_type field_name = 0
#define TILING_DATA_FIELD_DEF_ARR(arr_type, arr_size, field_name)             \
    arr_type *get_##field_name() { return field_name; }                       \
    const arr_type *get_##field_name() const { return field_name; }           \
    void set_##field_name(const arr_type *cgt_values) {                       \
        for (size_t cgt_at = 0; cgt_at < (arr_size); ++cgt_at) field_name[cgt_at] = cgt_values[cgt_at]; \
    }                                                                         \
    arr_type field_name[arr_size] = {}
#define TILING_DATA_FIELD_DEF_STRUCT(struct_type, field_name) struct_type field_name
#define END_TILING_DATA_DEF }
#define REGISTER_TILING_DATA_CLASS(op_type, class_name) static_assert(sizeof(class_name) > 0, #op_type);

#endif
