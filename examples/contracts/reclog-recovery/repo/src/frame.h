#ifndef RECLOG_FRAME_H
#define RECLOG_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_SIZE 24u
#define FRAME_MAX_PAYLOAD (64u << 20)

/* The batch goes on with the next frame. */
#define FRAME_MORE 0x01u

struct frame {
    unsigned flags;
    uint32_t length;
    uint64_t sequence;
    const unsigned char *payload;
};

enum frame_status {
    FRAME_OK,
    FRAME_INCOMPLETE, /* the data end before the frame does */
    FRAME_DAMAGED     /* a checksum or a fixed field is wrong */
};

/* Writes the header for a frame; the payload follows it in the file. */
void frame_encode_header(const struct frame *frame, unsigned char header[FRAME_HEADER_SIZE]);

/* Reads the frame at the beginning of `data`; its payload points into `data`. */
enum frame_status frame_decode(const unsigned char *data, size_t size, struct frame *frame);

/* Bytes that a frame takes in the file. */
size_t frame_size(const struct frame *frame);

#endif
