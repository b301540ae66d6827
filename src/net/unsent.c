/* unsent.c -- see unsent.h. Small pieces are gathered in blocks, so that a peer that reads slowly does
 * not cost a block per answer; leased ones are one block each, without their octets. */
#include "net/unsent.h"
#include <string.h>

#define BLOCK_BYTES 4096u

static void append_block(mr_link *link, mr_unsent *block)
{
    if (link->unsent_last != NULL)
        link->unsent_last->next = block;
    else
        link->unsent = block;
    link->unsent_last = block;
}

static mr_rc add_leased(mr_mem *mem, mr_link *link, const uint8_t *bytes, size_t len,
                        mr_lease *lease)
{
    mr_unsent *block = mr_mem_alloc(mem, sizeof *block);
    if (block == NULL)
        return MR_NOMEM;
    *block = (mr_unsent){.bytes = bytes, .len = len, .lease = lease};
    lease->borrowers++;
    append_block(link, block);
    return MR_OK;
}

static mr_rc add_copy(mr_mem *mem, mr_link *link, const uint8_t *bytes, size_t len)
{
    mr_unsent *last = link->unsent_last;
    if (last == NULL || last->lease != NULL || last->cap - last->len < len) {
        size_t cap = len > BLOCK_BYTES ? len : BLOCK_BYTES;
        last = mr_mem_alloc(mem, sizeof *last + cap);
        if (last == NULL)
            return MR_NOMEM;
        *last = (mr_unsent){.bytes = last->copy, .cap = cap};
        append_block(link, last);
    }
    memcpy(last->copy + last->len, bytes, len);
    last->len += len;
    return MR_OK;
}

mr_rc mr_unsent_add(mr_mem *mem, mr_link *link, const mr_piece_out *pieces, int count, size_t skip)
{
    for (int i = 0; i < count; i++) {
        size_t off = skip < pieces[i].len ? skip : pieces[i].len;
        size_t len = pieces[i].len - off;
        skip -= off;
        if (len == 0)
            continue;
        mr_rc rc = pieces[i].lease
                       ? add_leased(mem, link, pieces[i].bytes + off, len, pieces[i].lease)
                       : add_copy(mem, link, pieces[i].bytes + off, len);
        if (rc != MR_OK)
            return rc;
        link->unsent_bytes += len;
    }
    return MR_OK;
}

static void free_first(mr_mem *mem, mr_link *link)
{
    mr_unsent *block = link->unsent;
    mr_lease *lease = block->lease;
    link->unsent = block->next;
    if (link->unsent == NULL)
        link->unsent_last = NULL;
    mr_mem_free(mem, block, sizeof *block + block->cap);
    mr_lease_return(lease);
}

void mr_unsent_take(mr_mem *mem, mr_link *link, size_t sent)
{
    link->unsent_bytes -= sent;
    link->sent_mark++;
    while (sent > 0) {
        mr_unsent *block = link->unsent;
        size_t part = block->len - block->off < sent ? block->len - block->off : sent;
        block->off += part;
        sent -= part;
        if (block->off == block->len)
            free_first(mem, link);
    }
}

void mr_unsent_clear(mr_mem *mem, mr_link *link)
{
    while (link->unsent != NULL)
        free_first(mem, link);
    link->unsent_bytes = 0;
}
