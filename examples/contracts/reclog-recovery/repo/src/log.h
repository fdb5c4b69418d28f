#ifndef RECLOG_LOG_H
#define RECLOG_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "frame.h"

enum log_state {
    LOG_CLEAN,
    LOG_TORN,    /* ends in what a crash during a write can leave behind */
    LOG_CORRUPT  /* damaged where no crash can have done it */
};

enum log_result {
    LOG_DONE = 0,
    LOG_IO_ERROR,   /* see errno */
    LOG_NOT_A_LOG,  /* the file is something else */
    LOG_TOO_LARGE,  /* a record is over FRAME_MAX_PAYLOAD */
    LOG_REFUSED     /* the log is corrupt */
};

struct log_report {
    enum log_state state;
    uint64_t records;
    uint64_t last_sequence;
    size_t good_end;  /* where the good records end */
    size_t file_size;
};

struct log_record {
    const unsigned char *payload;
    size_t length;
};

/* Called for each good record, in order. */
typedef void (*log_visitor)(const struct frame *frame, void *context);

/* Reads a log from beginning to end; `visit` may be NULL. A missing file is LOG_IO_ERROR. */
enum log_result log_scan(const char *path, log_visitor visit, void *context, struct log_report *report);

/* Appends records, as one batch or each for itself; creates the file if it is missing. */
enum log_result log_append(const char *path, const struct log_record *records, size_t count, int as_batch,
                           struct log_report *report);

/* Cuts off what a crash has left behind; `report` describes the log as it was before. */
enum log_result log_recover(const char *path, struct log_report *report);

#endif
