/* What bare sockets take for the rounds of a broadcast on the circulant graph, on the nodes circ-0, circ-1, ...
 *
 *   floor RANK P BYTES SECONDS BLOCKS...
 *
 * In each of n - 1 + ceil(log2 P) rounds a rank sends a block of BYTES / n and receives one, by blocking calls: no
 * schedule, no protocol, nothing but the bytes. For each n of BLOCKS it prints "n median-in-us", of its own times.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7711, MOST_SKIPS = 32, MOST_TIMES = 1000, LEAST_TIMES = 5, PATIENCE_S = 20 };

static int rank, p, skips, to[MOST_SKIPS], from[MOST_SKIPS];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * t.tv_sec + 1e-3 * t.tv_nsec;
}

static void move_all(int link, char *bytes, size_t left, int sends)
{
    while (left) {
        ssize_t moved = sends ? send(link, bytes, left, MSG_NOSIGNAL) : recv(link, bytes, left, MSG_WAITALL);
        if (moved <= 0) err(1, "rank %d: %s", rank, sends ? "send" : "recv");
        bytes += moved;
        left -= moved;
    }
}

static struct sockaddr_in address_of(int peer)
{
    char name[32];
    struct addrinfo hints = {.ai_family = AF_INET}, *found;
    snprintf(name, sizeof name, "circ-%d", peer);
    if (getaddrinfo(name, NULL, &hints, &found)) errx(1, "no node %s", name);
    struct sockaddr_in address = *(struct sockaddr_in *)found->ai_addr;
    address.sin_port = htons(PORT);
    freeaddrinfo(found);
    return address;
}

static int prompt(int link)
{
    int yes = 1;
    setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return link;
}

static int dial(int peer)
{
    struct sockaddr_in address = address_of(peer);
    for (double end = now() + 1e6 * PATIENCE_S; now() < end; usleep(10000)) {
        int link = socket(AF_INET, SOCK_STREAM, 0);
        if (!connect(link, (struct sockaddr *)&address, sizeof address)) return prompt(link);
        close(link);
    }
    errx(1, "rank %d: rank %d does not answer", rank, peer);
}

/* One link to the rank a skip ahead, and one from the rank a skip behind, for each skip of the circulant graph. */
static void connect_all(void)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    struct sockaddr_in own = address_of(rank);
    if (bind(listener, (struct sockaddr *)&own, sizeof own) || listen(listener, MOST_SKIPS)) err(1, "rank %d: listen", rank);
    for (int skip = p; skip > 1; skips++) {
        skip = (skip + 1) / 2;
        char number = skips;
        to[skips] = dial((rank + skip) % p);
        move_all(to[skips], &number, 1, 1);
    }
    for (int k = 0; k < skips; k++) {
        char number;
        int link = accept(listener, NULL, NULL);
        if (link < 0) err(1, "rank %d: accept", rank);
        move_all(prompt(link), &number, 1, 0);
        from[(int)number] = link;
    }
    close(listener);
}

static void rounds(int count, char *out, char *in, size_t block)
{
    for (int i = 0; i < count; i++) {
        move_all(to[i % skips], out, block, 1);
        move_all(from[i % skips], in, block, 0);
    }
}

static int ascending(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

int main(int count, char **words)
{
    if (count < 6) errx(2, "RANK P BYTES SECONDS BLOCKS...");
    rank = atoi(words[1]), p = atoi(words[2]);
    size_t bytes = atol(words[3]);
    double wanted = 1e6 * atof(words[4]);
    if (p < 2) errx(2, "there is nobody to send to");
    connect_all();
    char *out = calloc(1, bytes), *in = calloc(1, bytes);
    if (!out || !in) errx(1, "rank %d: no memory for %zu bytes", rank, bytes);
    for (int i = 5; i < count; i++) {
        int blocks = atoi(words[i]), done = 0;
        if (blocks < 1) errx(2, "'%s' is no number of blocks", words[i]);
        double times[MOST_TIMES];
        /* Rank 0's first time says for all how often. */
        char beat[4] = {0};
        int repeats = LEAST_TIMES;
        for (int k = -1; k < repeats; k++) {
            rounds(skips, beat, beat, 1);
            double start = now();
            rounds(blocks - 1 + skips, out, in, bytes / blocks);
            double time = now() - start;
            if (k >= 0) times[done++] = time;
            if (k < 0) {
                int often = wanted / time;
                often = often < LEAST_TIMES ? LEAST_TIMES : often > MOST_TIMES ? MOST_TIMES : often;
                /* Round the whole circle, which the last skip, of 1, is. */
                int word = often;
                if (rank) move_all(from[skips - 1], (char *)&word, sizeof word, 0);
                if (rank != p - 1) move_all(to[skips - 1], (char *)&word, sizeof word, 1);
                repeats = word;
            }
        }
        qsort(times, done, sizeof *times, ascending);
        printf("%d %.1f\n", blocks, times[done / 2]);
    }
    return 0;
}
