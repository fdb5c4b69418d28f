#include <assert.h>
#include <string.h>

#include "../src/ring.h"

int main(void)
{
    struct ring ring;
    char out[8] = {0};

    ring_init(&ring);
    assert(ring_write(&ring, "abcdef", 6) == 6);
    assert(ring_read(&ring, out, 4) == 4);
    assert(ring_write(&ring, "ghijk", 5) == 5);
    assert(ring_read(&ring, out, 7) == 7);
    assert(memcmp(out, "efghijk", 7) == 0);
    return 0;
}
