/* What all tests from C share: a check that fails tells where, and ends the program. */
#ifndef CHECK_H
#define CHECK_H

#include <circulant.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) ((condition) ? (void)0 : fail_at(__FILE__, __LINE__, #condition))
/* The call succeeds. */
#define OK(call) check_code(__FILE__, __LINE__, #call, call, CIRCULANT_OK, "")
/* The call fails with a code, and its sentence has these words. */
#define FAILS(code, words, call) check_code(__FILE__, __LINE__, #call, call, code, words)

static void fail_at(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    exit(1);
}

static void check_code(const char *file, int line, const char *call, int code, int wanted, const char *words)
{
    if (code == wanted && (code == CIRCULANT_OK || strstr(circulant_error_message(), words)))
        return;
    fprintf(stderr, "%s:%d: %s gives %s (%s), not %s with \"%s\"\n", file, line, call, circulant_error_name(code),
            circulant_error_message(), circulant_error_name(wanted), words);
    exit(1);
}

/* Memory, or the end. */
static inline void *memory(size_t bytes)
{
    void *found = calloc(bytes ? bytes : 1, 1);
    CHECK(found);
    return found;
}

#endif
