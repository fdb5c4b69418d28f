#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char MAGIC[] = "RECLOG1\n";
enum { MAGIC_SIZE = sizeof MAGIC - 1 };

static enum log_result read_file(const char *path, unsigned char **data, size_t *size)
{
    FILE *file = fopen(path, "rb");
    size_t capacity = 1 << 16;

    *data = NULL;
    *size = 0;
    if (file == NULL)
        return LOG_IO_ERROR;
    for (;;) {
        unsigned char *larger = realloc(*data, capacity);

        if (larger == NULL)
            break;
        *data = larger;
        *size += fread(*data + *size, 1, capacity - *size, file);
        if (*size < capacity)
            break;
        capacity *= 2;
    }
    if (*size == capacity || ferror(file)) {
        fclose(file);
        free(*data);
        *data = NULL;
        return LOG_IO_ERROR;
    }
    fclose(file);
    return LOG_DONE;
}

static void scan_frames(const unsigned char *data, log_visitor visit, void *context, struct log_report *report)
{
    while (report->good_end < report->file_size) {
        struct frame frame;
        enum frame_status status =
            frame_decode(data + report->good_end, report->file_size - report->good_end, &frame);

        if (status == FRAME_INCOMPLETE) {
            report->state = LOG_TORN;
            return;
        }
        if (status == FRAME_DAMAGED || frame.sequence != report->last_sequence + 1) {
            report->state = LOG_CORRUPT;
            return;
        }
        if (visit != NULL)
            visit(&frame, context);
        report->records++;
        report->last_sequence = frame.sequence;
        report->good_end += frame_size(&frame);
    }
}

enum log_result log_scan(const char *path, log_visitor visit, void *context, struct log_report *report)
{
    unsigned char *data;
    enum log_result result;

    memset(report, 0, sizeof *report);
    report->state = LOG_CLEAN;
    result = read_file(path, &data, &report->file_size);
    if (result != LOG_DONE)
        return result;
    if (report->file_size > 0) {
        if (report->file_size < MAGIC_SIZE || memcmp(data, MAGIC, MAGIC_SIZE) != 0) {
            free(data);
            return LOG_NOT_A_LOG;
        }
        report->good_end = MAGIC_SIZE;
        scan_frames(data, visit, context, report);
    }
    free(data);
    return LOG_DONE;
}

static int write_record(FILE *file, const struct log_record *record, unsigned flags, uint64_t sequence)
{
    unsigned char header[FRAME_HEADER_SIZE];
    struct frame frame = {
        .flags = flags, .length = (uint32_t)record->length, .sequence = sequence, .payload = record->payload};

    frame_encode_header(&frame, header);
    return fwrite(header, 1, sizeof header, file) == sizeof header &&
           fwrite(record->payload, 1, record->length, file) == record->length;
}

enum log_result log_append(const char *path, const struct log_record *records, size_t count, int as_batch,
                           struct log_report *report)
{
    enum log_result result = log_scan(path, NULL, NULL, report);
    FILE *file;
    int written = 1;

    if (result != LOG_DONE && !(result == LOG_IO_ERROR && errno == ENOENT))
        return result;
    for (size_t i = 0; i < count; i++)
        if (records[i].length > FRAME_MAX_PAYLOAD)
            return LOG_TOO_LARGE;

    file = fopen(path, "ab");
    if (file == NULL)
        return LOG_IO_ERROR;
    if (report->file_size == 0)
        written = fwrite(MAGIC, 1, MAGIC_SIZE, file) == MAGIC_SIZE;
    for (size_t i = 0; i < count && written; i++) {
        unsigned flags = as_batch && i + 1 < count ? FRAME_MORE : 0;

        written = write_record(file, &records[i], flags, report->last_sequence + 1);
        report->last_sequence++;
        report->records++;
    }
    if (fflush(file) != 0 || fsync(fileno(file)) != 0)
        written = 0;
    if (fclose(file) != 0)
        written = 0;
    return written ? LOG_DONE : LOG_IO_ERROR;
}

enum log_result log_recover(const char *path, struct log_report *report)
{
    enum log_result result = log_scan(path, NULL, NULL, report);

    if (result != LOG_DONE || report->state == LOG_CLEAN)
        return result;
    return truncate(path, (off_t)report->good_end) == 0 ? LOG_DONE : LOG_IO_ERROR;
}
