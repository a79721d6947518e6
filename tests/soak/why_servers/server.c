/* A server with one thread, for tests/soak/why.py: `server PORT` serves, `server time LOOPS` measures planted(). */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST 8192

static volatile unsigned kept;
struct connection { int at; char bytes[MOST]; };

__attribute__((noinline)) void planted(unsigned loops) {
    unsigned sum = kept;
    for (unsigned at = 0; at < loops; at++) sum = sum * 31 ^ at;
    kept = sum;
}

__attribute__((noinline)) static int parse(const char *request, int size) {
    unsigned sum = kept;
    for (int at = 0; at < size; at++) sum = sum * 33 + (unsigned char)request[at];
    kept = sum;
    return strncmp(request, "GET ", 4) == 0;
}

__attribute__((noinline)) static int render(char *out, int found, int closes) {
    const char *body = "{\"id\":1}";
    return snprintf(out, MOST, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n%s",
                    found ? "200 OK" : "400 Bad Request", strlen(body), closes ? "Connection: close\r\n" : "", body);
}

/* Serves all whole requests of a connection; returns 0 when it is to be closed. */
static int serve(int socket, struct connection *held) {
    ssize_t got = recv(socket, held->bytes + held->at, MOST - 1 - held->at, 0);
    if (got <= 0) return 0;
    held->at += got;
    held->bytes[held->at] = 0;
    char *end, out[MOST];
    while ((end = strstr(held->bytes, "\r\n\r\n"))) {
        int size = end + 4 - held->bytes;
        *end = 0;
        int closes = strcasestr(held->bytes, "connection: close") != NULL;
        int found = parse(held->bytes, size - 4);
        planted(LOOPS);
        int length = render(out, found, closes);
        if (send(socket, out, length, MSG_NOSIGNAL) < 0 || closes) return 0;
        memmove(held->bytes, held->bytes + size, held->at - size + 1);
        held->at -= size;
    }
    return held->at < MOST - 1;
}

static double cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count == 3) {
        unsigned loops = atoi(words[2]), calls = 20000000 / (loops + 20);
        double begun = cpu_s();
        for (unsigned call = 0; call < calls; call++) planted(loops);
        printf("%.6f\n", 1e6 * (cpu_s() - begun) / calls);
        return 0;
    }
    int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (struct sockaddr *)&place, sizeof place) || listen(listening, 4096)) return 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening}, ready[64];
    epoll_ctl(poll, EPOLL_CTL_ADD, listening, &event);
    static struct connection *held[65536];
    for (;;) {
        int most = epoll_wait(poll, ready, 64, -1);
        for (int at = 0; at < most; at++) {
            int socket = ready[at].data.fd;
            if (socket == listening) {
                socket = accept(listening, NULL, NULL);
                if (socket < 0 || socket > 65535) continue;
                setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                if (!held[socket]) held[socket] = malloc(sizeof **held);
                held[socket]->at = 0;
                event.data.fd = socket;
                epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event);
            } else if (!serve(socket, held[socket])) close(socket);
        }
    }
}
