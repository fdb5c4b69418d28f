#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "log.h"

enum { EXIT_TORN = 1, EXIT_TROUBLE = 2, EXIT_CORRUPT = 3 };

static const char USAGE[] =
    "usage: reclog append [--batch | --raw] LOG\n"
    "       reclog dump LOG\n"
    "       reclog check LOG\n"
    "       reclog recover LOG\n";

struct input {
    struct log_record *records;
    size_t count;
};

static void *must(void *memory)
{
    if (memory == NULL) {
        fputs("reclog: out of memory\n", stderr);
        exit(EXIT_TROUBLE);
    }
    return memory;
}

static void add_record(struct input *input, const char *bytes, size_t length)
{
    unsigned char *copy = must(malloc(length + 1));

    memcpy(copy, bytes, length);
    input->records = must(realloc(input->records, (input->count + 1) * sizeof *input->records));
    input->records[input->count].payload = copy;
    input->records[input->count].length = length;
    input->count++;
}

static void read_lines(struct input *input)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;

    while ((length = getline(&line, &capacity, stdin)) >= 0) {
        if (length > 0 && line[length - 1] == '\n')
            length--;
        add_record(input, line, (size_t)length);
    }
    free(line);
}

static void read_all(struct input *input)
{
    size_t size = 0, capacity = 1 << 16;
    char *bytes = must(malloc(capacity));

    for (;;) {
        size += fread(bytes + size, 1, capacity - size, stdin);
        if (size < capacity)
            break;
        capacity *= 2;
        bytes = must(realloc(bytes, capacity));
    }
    add_record(input, bytes, size);
    free(bytes);
}

static void free_input(struct input *input)
{
    for (size_t i = 0; i < input->count; i++)
        free((void *)input->records[i].payload);
    free(input->records);
}

static int explain(enum log_result result, const char *path)
{
    switch (result) {
    case LOG_DONE:
        return EXIT_SUCCESS;
    case LOG_IO_ERROR:
        fprintf(stderr, "reclog: %s: %s\n", path, strerror(errno));
        return EXIT_TROUBLE;
    case LOG_NOT_A_LOG:
        fprintf(stderr, "reclog: %s is not a record log\n", path);
        return EXIT_TROUBLE;
    case LOG_TOO_LARGE:
        fprintf(stderr, "reclog: a record is over %u bytes\n", FRAME_MAX_PAYLOAD);
        return EXIT_TROUBLE;
    case LOG_REFUSED:
        fprintf(stderr, "reclog: %s is corrupt; nothing was changed\n", path);
        return EXIT_CORRUPT;
    }
    return EXIT_TROUBLE;
}

static void print_record(const struct frame *frame, void *context)
{
    (void)context;
    printf("%llu\t", (unsigned long long)frame->sequence);
    for (size_t i = 0; i < frame->length; i++) {
        unsigned char byte = frame->payload[i];

        if (byte == '\\')
            fputs("\\\\", stdout);
        else if (byte < 0x20 || byte >= 0x7f)
            printf("\\x%02x", byte);
        else
            putchar(byte);
    }
    putchar('\n');
}

static int command_append(const char *option, const char *path)
{
    struct input input = {NULL, 0};
    struct log_report report;
    enum log_result result;

    if (strcmp(option, "--raw") == 0)
        read_all(&input);
    else
        read_lines(&input);
    result = log_append(path, input.records, input.count, strcmp(option, "--batch") == 0, &report);
    if (result == LOG_DONE)
        printf("appended %zu records, last sequence %llu\n", input.count,
               (unsigned long long)report.last_sequence);
    free_input(&input);
    return explain(result, path);
}

static int command_dump(const char *path)
{
    struct log_report report;
    enum log_result result = log_scan(path, print_record, NULL, &report);

    if (result != LOG_DONE)
        return explain(result, path);
    if (report.state == LOG_CLEAN)
        return EXIT_SUCCESS;
    fprintf(stderr, "reclog: %s: stopped at byte %zu of %zu\n", path, report.good_end, report.file_size);
    return report.state == LOG_CORRUPT ? EXIT_CORRUPT : EXIT_SUCCESS;
}

static int command_check(const char *path)
{
    struct log_report report;
    enum log_result result = log_scan(path, NULL, NULL, &report);
    unsigned long long records;

    if (result != LOG_DONE)
        return explain(result, path);
    records = report.records;
    switch (report.state) {
    case LOG_CLEAN:
        printf("clean: %llu records\n", records);
        return EXIT_SUCCESS;
    case LOG_TORN:
        printf("torn: %llu records, %zu bytes to drop\n", records, report.file_size - report.good_end);
        return EXIT_TORN;
    case LOG_CORRUPT:
        printf("corrupt: %llu records before byte %zu\n", records, report.good_end);
        return EXIT_CORRUPT;
    }
    return EXIT_TROUBLE;
}

static int command_recover(const char *path)
{
    struct log_report report;
    enum log_result result = log_recover(path, &report);

    if (result == LOG_DONE)
        printf("kept %llu records, dropped %zu bytes\n", (unsigned long long)report.records,
               report.file_size - report.good_end);
    return explain(result, path);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    int status = -1;

    if (strcmp(command, "append") == 0 && argc == 3)
        status = command_append("", argv[2]);
    else if (strcmp(command, "append") == 0 && argc == 4 &&
             (strcmp(argv[2], "--batch") == 0 || strcmp(argv[2], "--raw") == 0))
        status = command_append(argv[2], argv[3]);
    else if (strcmp(command, "dump") == 0 && argc == 3)
        status = command_dump(argv[2]);
    else if (strcmp(command, "check") == 0 && argc == 3)
        status = command_check(argv[2]);
    else if (strcmp(command, "recover") == 0 && argc == 3)
        status = command_recover(argv[2]);

    if (status < 0) {
        fputs(USAGE, stderr);
        return EXIT_TROUBLE;
    }
    if (fflush(stdout) != 0) {
        perror("reclog: standard output");
        return EXIT_TROUBLE;
    }
    return status;
}
