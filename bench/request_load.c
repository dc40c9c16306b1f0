/* Load generator of the benchmarks: one thread, epoll, non-blocking sockets.
 *
 * Keeps WINDOW unanswered requests open on each connection, always the same one but for its correlation id and what
 * rises: whatever a readable event answers is asked again in one write. With a PERIOD the requests on stdin, of which
 * there may then be several for each connection, are sent one after the other instead, evenly, all of them once in each
 * period; a latency counts from when the request was due. Every response is checked: its length, that correlation
 * ids come back in order, and its error code. Connections are opened one after the other, each proven by one answered
 * request before the next is opened, because some servers have a very short accept queue.
 *
 * request_load HOST PORT CONNECTIONS WINDOW WARM_UP_SECONDS SECONDS SERVER_PID \
 *              RESPONSE_BYTES ERROR_AT PERIOD_MS GREETINGS [RISING_AT ...]
 *
 * RESPONSE_BYTES is the size of every response, its length prefix included, and ERROR_AT where in it the error
 * code is. RISING_AT are places of 64-bit numbers in every request that have the value of the first one, and one more
 * in each request of a connection. Request frames are read from stdin, one a line in hexadecimal and without their
 * length prefix; connection i takes line i modulo their number. The first GREETINGS lines are sent on every connection
 * before, one after the other: what a client says to be let in. One line of JSON on stdout; exit code 1 and a line on
 * stderr if the server closed a connection, stopped answering or broke the protocol.
 *
 * Compiled with -DWITH_TLS it speaks TLS, by OpenSSL, and believes any certificate.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/ssl.h>
#endif

enum {
    MAX_RESPONSE = 256,
    MAX_FRAME = 1024,  /* of a request */
    MAX_RISING = 64,
    MAX_WINDOW = 100,  /* so that a window always fits a socket's buffers and a short write is a fault */
    EVENTS = 256,
    STALLED_MS = 10000, /* no event at all for this long: the server stopped answering */
    SUB_BUCKETS = 64,  /* of the latency histogram in each power of two: steps of at most 1.6 % */
    BUCKETS = 64 * SUB_BUCKETS,
};

struct request {
    char bytes[MAX_FRAME];
    int size; /* with its length prefix */
};

struct connection {
    int fd;
#ifdef WITH_TLS
    SSL *tls;
#endif
    int frame_size;         /* bytes of one request with its length prefix */
    char *frames;           /* WINDOW copies of the request, so that up to WINDOW leave in one write */
    uint64_t first;         /* what the numbers that rise begin with */
    uint32_t next_sent;     /* correlation id of the next request */
    uint32_t next_answered; /* correlation id that the next response must carry */
    uint64_t *sent_ns;      /* when request `correlation id modulo WINDOW` was sent */
    int held;               /* bytes of an incomplete response in `input` */
    char input[MAX_RESPONSE * (MAX_WINDOW + 1)];
};

static int window, response_bytes, error_at, rising, rising_at[MAX_RISING];
static struct request *requests; /* as stdin has them */
static struct request *greetings;
static int greeting_count;
static int request_count, next_due;
static uint64_t period_ns, due_ns; /* of a load with a period: when the next request is due */
static uint64_t responses, errors, slowest_ns;
static int first_error;
static uint64_t histogram[BUCKETS];

static void fail(const char *what)
{
    fprintf(stderr, "request_load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        fail("clock_gettime");
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Nanoseconds that the threads of a process were ready to run but waited for a core; 0 if unknown. */
static uint64_t waited_ns(int pid)
{
    char path[300];
    uint64_t total = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return 0;
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
        unsigned long long ran, waited;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fscanf(file, "%llu %llu", &ran, &waited) == 2)
            total += waited;
        fclose(file);
    }
    closedir(tasks);
    return total;
}

static void put_u32(char *at, uint32_t value)
{
    value = htonl(value);
    memcpy(at, &value, 4);
}

static void put_u64(char *at, uint64_t value)
{
    put_u32(at, (uint32_t)(value >> 32));
    put_u32(at + 4, (uint32_t)value);
}

static uint32_t get_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return ntohl(value);
}

/* One line of hexadecimal digits to a request with its length prefix; the correlation id is patched in at offset 8. */
static int build_request(char *frame, const char *line)
{
    int size = 0;
    for (; line[0] != '\0' && line[0] != '\n'; line += 2, size++) {
        unsigned byte;
        errno = 0;
        if (size + 4 >= MAX_FRAME || sscanf(line, "%2x", &byte) != 1)
            fail("a request on stdin is not hexadecimal, or too long");
        frame[4 + size] = (char)byte;
    }
    put_u32(frame, (uint32_t)size);
    return size + 4;
}

#ifdef WITH_TLS
static void begin_tls(struct connection *c)
{
    static SSL_CTX *context;
    if (context == NULL) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_read_ahead(context, 1); /* all that is there by one call to the kernel */
    }
    errno = 0;
    if ((c->tls = SSL_new(context)) == NULL || SSL_set_fd(c->tls, c->fd) != 1 || SSL_connect(c->tls) != 1)
        fail("the TLS handshake failed");
}

static ssize_t transmit(struct connection *c, const char *data, int size)
{
    return SSL_write(c->tls, data, size);
}

/* As recv. */
static ssize_t take(struct connection *c, char *data, int size)
{
    int got = SSL_read(c->tls, data, size);
    if (got <= 0 && SSL_get_error(c->tls, got) == SSL_ERROR_WANT_READ) {
        errno = EAGAIN;
        return -1;
    }
    return got < 0 ? 0 : got;
}

/* Whether there may be more that the kernel does not know of. */
static int has_more(struct connection *c)
{
    return SSL_has_pending(c->tls);
}
#else
static void begin_tls(struct connection *c)
{
    (void)c;
}

static ssize_t transmit(struct connection *c, const char *data, int size)
{
    return send(c->fd, data, (size_t)size, MSG_NOSIGNAL);
}

static ssize_t take(struct connection *c, char *data, int size)
{
    return recv(c->fd, data, (size_t)size, 0);
}

static int has_more(struct connection *c)
{
    (void)c;
    return 0;
}
#endif

static void take_all(struct connection *c, char *data, int size)
{
    for (int got = 0, more; got < size; got += more)
        if ((more = (int)take(c, data + got, size - got)) <= 0)
            fail("the server does not answer what is to let a client in");
}

/* Be let in. An answer has its error code right behind its correlation id. */
static void greet(struct connection *c)
{
    char answer[MAX_FRAME];
    for (int i = 0; i < greeting_count; i++) {
        errno = 0;
        if (transmit(c, greetings[i].bytes, greetings[i].size) != greetings[i].size)
            fail("what is to let a client in could not be sent");
        take_all(c, answer, 4);
        int size = (int)get_u32(answer);
        if (size < 6 || size > MAX_FRAME)
            fail("the answer to what is to let a client in has a strange length");
        take_all(c, answer, size);
        if (answer[4] != 0 || answer[5] != 0)
            fail("the server does not let the client in");
    }
}

static void send_requests(struct connection *c, int count, uint64_t now)
{
    for (int i = 0; i < count; i++) {
        char *frame = c->frames + i * c->frame_size;
        put_u32(frame + 8, c->next_sent);
        for (int place = 0; place < rising; place++)
            put_u64(frame + rising_at[place], c->first + c->next_sent);
        c->sent_ns[c->next_sent % (uint32_t)window] = now;
        c->next_sent++;
    }
    int size = count * c->frame_size;
    errno = 0;
    if (transmit(c, c->frames, size) != size)
        fail("a window of requests could not be sent whole");
}

/* Send what is due; its latency counts from then, so that a slow server is not asked less. */
static void send_due(struct connection *connections, int count, uint64_t now)
{
    for (; due_ns <= now; due_ns += period_ns / (uint64_t)request_count) {
        struct connection *c = &connections[next_due % count];
        struct request *request = &requests[next_due];
        next_due = (next_due + 1) % request_count;
        errno = 0;
        if (c->next_sent - c->next_answered >= (uint32_t)window)
            fail("the server answers less than it is asked");
        c->frame_size = request->size;
        memcpy(c->frames, request->bytes, (size_t)request->size);
        send_requests(c, 1, due_ns);
    }
}

static int bucket_of(uint64_t ns)
{
    if (ns < SUB_BUCKETS)
        return (int)ns;
    int shift = 63 - __builtin_clzll(ns) - 6;
    return (shift + 1) * SUB_BUCKETS + (int)((ns >> shift) - SUB_BUCKETS);
}

static uint64_t bucket_floor(int bucket)
{
    if (bucket < SUB_BUCKETS)
        return (uint64_t)bucket;
    return (uint64_t)(bucket % SUB_BUCKETS + SUB_BUCKETS) << (bucket / SUB_BUCKETS - 1);
}

static double percentile_us(double share)
{
    uint64_t total = 0, seen = 0;
    for (int i = 0; i < BUCKETS; i++)
        total += histogram[i];
    for (int i = 0; i < BUCKETS; i++) {
        seen += histogram[i];
        if (seen > 0 && (double)seen >= share * (double)total)
            return (double)bucket_floor(i) / 1000;
    }
    return 0;
}

static void check_response(struct connection *c, const char *frame, uint64_t now)
{
    errno = 0;
    if (get_u32(frame) != (uint32_t)response_bytes - 4)
        fail("a response has the wrong length");
    if (c->next_answered == c->next_sent || get_u32(frame + 4) != c->next_answered)
        fail("a response has the wrong correlation id");
    int error = (unsigned char)frame[error_at] << 8 | (unsigned char)frame[error_at + 1];
    if (error != 0 && errors++ == 0)
        first_error = error;
    uint64_t took = now - c->sent_ns[c->next_answered % (uint32_t)window];
    histogram[bucket_of(took)]++;
    if (took > slowest_ns)
        slowest_ns = took;
    c->next_answered++;
    responses++;
}

/* Read what is there; returns the number of responses that it completed. */
static int receive(struct connection *c, uint64_t *now)
{
    int count = 0;
    do {
        errno = 0;
        ssize_t size = take(c, c->input + c->held, (int)sizeof c->input - c->held);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return count;
        if (size <= 0)
            fail("the server closed a connection");
        *now = clock_ns(CLOCK_MONOTONIC);
        int end = c->held + (int)size, at = 0;
        for (; end - at >= response_bytes; at += response_bytes, count++)
            check_response(c, c->input + at, *now);
        c->held = end - at;
        memmove(c->input, c->input + at, (size_t)c->held);
    } while (has_more(c));
    return count;
}

static void open_connection(struct connection *c, const struct sockaddr_in *address, int poll)
{
    int yes = 1;
    struct timeval patience = {.tv_sec = STALLED_MS / 1000};
    errno = 0;
    if ((c->fd = socket(AF_INET, SOCK_STREAM, 0)) < 0)
        fail("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(c->fd, (const struct sockaddr *)address, sizeof *address) != 0)
        fail("connect");
    begin_tls(c);
    greet(c);
    uint64_t now = clock_ns(CLOCK_MONOTONIC), deadline = now + (uint64_t)STALLED_MS * 1000000u;
    send_requests(c, 1, now);
    while (receive(c, &now) == 0)
        if (clock_ns(CLOCK_MONOTONIC) > deadline)
            fail("the server did not answer on a new connection");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0 || epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event) != 0)
        fail("epoll_ctl");
}

/* Serve events until the monotonic clock reads `until_ns`; returns when it stopped. */
static uint64_t run(int poll, struct connection *connections, int count, uint64_t until_ns)
{
    struct epoll_event events[EVENTS];
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    while (now < until_ns) {
        if (period_ns > 0)
            send_due(connections, count, now);
        errno = 0;
        int ready = epoll_wait(poll, events, EVENTS, period_ns > 0 ? (int)((due_ns - now) / 1000000u) : STALLED_MS);
        if ((ready == 0 && period_ns == 0) || (ready < 0 && errno != EINTR))
            fail("the server stopped answering");
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            int answered = receive(c, &now);
            if (answered > 0 && period_ns == 0)
                send_requests(c, answered, now);
        }
        if (period_ns > 0)
            now = clock_ns(CLOCK_MONOTONIC);
    }
    return now;
}

/* One more line of stdin; 0 if there is none. */
static int read_request(struct request **known, int *count)
{
    static char line[2 * MAX_FRAME + 2];
    if (fgets(line, sizeof line, stdin) == NULL)
        return 0;
    if ((*known = realloc(*known, (size_t)(*count + 1) * sizeof **known)) == NULL)
        fail("out of memory");
    struct request *request = &(*known)[(*count)++];
    request->size = build_request(request->bytes, line);
    return 1;
}

static void read_requests(struct connection *connections, int count, int greeting_lines)
{
    while (greeting_count < greeting_lines && read_request(&greetings, &greeting_count))
        ;
    while ((period_ns > 0 || request_count < count) && read_request(&requests, &request_count))
        ;
    errno = 0;
    if (request_count == 0)
        fail("no request on stdin");
    int copies = period_ns > 0 ? 1 : window;
    for (int i = 0; i < count; i++) {
        struct connection *c = &connections[i];
        struct request *request = &requests[i % request_count];
        c->sent_ns = calloc((size_t)window, sizeof *c->sent_ns);
        c->frame_size = request->size;
        c->frames = malloc((size_t)(MAX_FRAME * copies));
        for (int copy = 0; copy < copies; copy++)
            memcpy(c->frames + copy * c->frame_size, request->bytes, (size_t)c->frame_size);
        if (rising > 0)
            c->first = get_u32(request->bytes + rising_at[0] + 4); /* its upper half is 0 */
    }
}

int main(int argc, char **argv)
{
    if (argc < 12 || argc > 12 + MAX_RISING) {
        fprintf(stderr, "usage: %s HOST PORT CONNECTIONS WINDOW WARM_UP_SECONDS SECONDS SERVER_PID "
                "RESPONSE_BYTES ERROR_AT PERIOD_MS GREETINGS [RISING_AT ...]\n", argv[0]);
        return 2;
    }
    int count = atoi(argv[3]), pid = atoi(argv[7]), poll = epoll_create1(0);
    window = atoi(argv[4]);
    response_bytes = atoi(argv[8]);
    error_at = atoi(argv[9]);
    period_ns = (uint64_t)atoi(argv[10]) * 1000000u;
    for (int i = 12; i < argc; i++)
        rising_at[rising++] = atoi(argv[i]) + 4;
    double warm_up = atof(argv[5]), seconds = atof(argv[6]);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    clockid_t server_clock;
    if (count < 1 || window < 1 || window > MAX_WINDOW || response_bytes > MAX_RESPONSE ||
        error_at < 8 || error_at + 2 > response_bytes || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
        fail("bad arguments");
    if (clock_getcpuclockid(pid, &server_clock) != 0)
        fail("no such server process");
    struct connection *connections = calloc((size_t)count, sizeof *connections);
    read_requests(connections, count, atoi(argv[11]));
    for (int i = 0; i < count; i++)
        open_connection(&connections[i], &address, poll);
    for (int i = 0; i < count && period_ns == 0; i++)
        send_requests(&connections[i], window, clock_ns(CLOCK_MONOTONIC));
    due_ns = clock_ns(CLOCK_MONOTONIC);

    run(poll, connections, count, clock_ns(CLOCK_MONOTONIC) + (uint64_t)(warm_up * 1e9));
    memset(histogram, 0, sizeof histogram);
    slowest_ns = 0;
    uint64_t before = responses, waited = waited_ns(pid), own_waited = waited_ns(getpid());
    uint64_t server = clock_ns(server_clock), own = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t start = clock_ns(CLOCK_MONOTONIC), end = run(poll, connections, count, start + (uint64_t)(seconds * 1e9));
    server = clock_ns(server_clock) - server;
    own = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own;
    waited = waited_ns(pid) - waited;
    own_waited = waited_ns(getpid()) - own_waited;

    uint32_t most_sent = 0;
    for (int i = 0; i < count; i++)
        if (connections[i].next_sent > most_sent)
            most_sent = connections[i].next_sent;
    double took = (double)(end - start) / 1e9;
    uint64_t answered = responses - before;
    printf("{\"responses\": %llu, \"seconds\": %.6f, \"per_second\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"max_us\": %.1f, \"most_sent\": %u, "
           "\"errors\": %llu, \"first_error\": %d, \"server_cpu_seconds\": %.6f, \"generator_cpu_seconds\": %.6f, "
           "\"server_waited_seconds\": %.6f, \"generator_waited_seconds\": %.6f}\n",
           (unsigned long long)answered, took, (double)answered / took, percentile_us(0.50),
           percentile_us(0.99), (double)slowest_ns / 1000, most_sent, (unsigned long long)errors, first_error,
           (double)server / 1e9, (double)own / 1e9, (double)waited / 1e9, (double)own_waited / 1e9);
    return 0;
}
