#ifndef RECLOG_CRC32_H
#define RECLOG_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32 as in zip and PNG (polynomial 0xEDB88320, reflected). */
uint32_t crc32(const void *data, size_t size);

#endif
