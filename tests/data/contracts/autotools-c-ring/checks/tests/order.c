#include <assert.h>

#include "../src/ring.h"

int main(void)
{
    struct ring ring;
    char out = 0;

    ring_init(&ring);
    assert(ring_write(&ring, "a", 1) == 1);
    assert(ring_read(&ring, &out, 1) == 1);
    assert(out == 'a');
    return 0;
}
