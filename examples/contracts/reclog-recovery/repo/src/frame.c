#include "frame.h"

#include "crc32.h"

enum { AT_FLAGS = 2, AT_RESERVED = 3, AT_LENGTH = 4, AT_SEQUENCE = 8, AT_PAYLOAD_CRC = 16, AT_HEADER_CRC = 20 };

static void put(unsigned char *at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t take(const unsigned char *at, int size)
{
    uint64_t value = 0;

    for (int i = size - 1; i >= 0; i--)
        value = (value << 8) | at[i];
    return value;
}

void frame_encode_header(const struct frame *frame, unsigned char header[FRAME_HEADER_SIZE])
{
    header[0] = 'R';
    header[1] = 'L';
    header[AT_FLAGS] = (unsigned char)frame->flags;
    header[AT_RESERVED] = 0;
    put(header + AT_LENGTH, frame->length, 4);
    put(header + AT_SEQUENCE, frame->sequence, 8);
    put(header + AT_PAYLOAD_CRC, crc32(frame->payload, frame->length), 4);
    put(header + AT_HEADER_CRC, crc32(header, AT_HEADER_CRC), 4);
}

enum frame_status frame_decode(const unsigned char *data, size_t size, struct frame *frame)
{
    if (size < FRAME_HEADER_SIZE)
        return FRAME_INCOMPLETE;
    if (data[0] != 'R' || data[1] != 'L' || data[AT_RESERVED] != 0)
        return FRAME_DAMAGED;
    if (take(data + AT_HEADER_CRC, 4) != crc32(data, AT_HEADER_CRC))
        return FRAME_DAMAGED;

    frame->flags = data[AT_FLAGS];
    frame->length = (uint32_t)take(data + AT_LENGTH, 4);
    frame->sequence = take(data + AT_SEQUENCE, 8);
    frame->payload = data + FRAME_HEADER_SIZE;
    if (frame->length > size - FRAME_HEADER_SIZE)
        return FRAME_INCOMPLETE;
    if (take(data + AT_PAYLOAD_CRC, 4) != crc32(frame->payload, frame->length))
        return FRAME_DAMAGED;
    return FRAME_OK;
}

size_t frame_size(const struct frame *frame)
{
    return FRAME_HEADER_SIZE + (size_t)frame->length;
}
