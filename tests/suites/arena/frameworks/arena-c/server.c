/* An entry as HttpArena has them, made for the tests of Dragstrip: epoll, and two processes on one port by SO_REUSEPORT. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM 65536

struct connection {
    int file;
    size_t size;
    char text[ROOM + 1];
};

/* The body of a request in chunks: its end, or NULL as long as the end is missing; the content goes to `body`. */
static char *chunks(char *at, char *body) {
    for (;;) {
        char *line = strstr(at, "\r\n");
        if (!line) return NULL;
        size_t size = strtoul(at, NULL, 16);
        if (strlen(line + 2) < size + 2) return NULL;
        strncat(body, line + 2, size);
        at = line + 2 + size + 2;
        if (!size) return at;
    }
}

static long after(const char *line, const char *name) {
    const char *found = memmem(line, strcspn(line, "\r"), name, strlen(name));
    return found ? atol(found + strlen(name)) : 0;
}

/* Answers the first request of a text; returns its end, or NULL as long as the end is missing. */
static char *answer(char *text, char *out) {
    char *head = strstr(text, "\r\n\r\n"), body[256] = "", *end;
    if (!head) return NULL;
    end = head + 4;
    char *length = strcasestr(text, "\r\ncontent-length:"), *framing = strcasestr(text, "\r\ntransfer-encoding:");
    if (framing && framing < head) {
        if (!(end = chunks(end, body))) return NULL;
    } else if (length && length < head) {
        size_t size = strtoul(length + 17, NULL, 10);
        if (strlen(end) < size) return NULL;
        strncat(body, end, size < sizeof body ? size : sizeof body - 1);
        end += size;
    }
    char *closing = strcasestr(text, "\r\nconnection: close");
    char sum[32] = "ok";
    if (strstr(text, " /baseline11?") && strstr(text, " /baseline11?") < head)
        snprintf(sum, sizeof sum, "%ld", after(text, "a=") + after(text, "b=") + atol(body));
    else if (!strstr(text, " /pipeline") || strstr(text, " /pipeline") > head)
        snprintf(out, 200, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    if (!*out)
        snprintf(out, 200, "HTTP/1.1 200 OK\r\nServer: c\r\nContent-Type: text/plain\r\n%sContent-Length: %zu\r\n\r\n%s",
                 closing && closing < head ? "Connection: close\r\n" : "", strlen(sum), sum);
    return end;
}

static int served(struct connection *one) {
    static char all[ROOM];
    ssize_t got = read(one->file, one->text + one->size, ROOM - one->size);
    if (got <= 0) return 0;
    one->text[one->size += (size_t)got] = 0;
    char *at = one->text, *end, out[256];
    size_t written = 0;
    int keep = 1;
    *all = 0;
    while (keep && *at && written < ROOM - 512 && (*out = 0, end = answer(at, out))) {
        keep = !strstr(out, "\r\nConnection: close");
        written += (size_t)sprintf(all + written, "%s", out);
        at = end;
    }
    one->size -= (size_t)(at - one->text);
    memmove(one->text, at, one->size + 1);
    return (!written || write(one->file, all, written) == (ssize_t)written) && keep && one->size < ROOM;
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(8080)};
    int on = 1;
    fork();
    int listening = socket(AF_INET, SOCK_STREAM, 0), ready = epoll_create1(0);
    setsockopt(listening, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 4096)) {
        perror("port 8080");
        return 1;
    }
    struct epoll_event events[64], event = {.events = EPOLLIN};
    epoll_ctl(ready, EPOLL_CTL_ADD, listening, &event);
    for (;;) {
        int count = epoll_wait(ready, events, 64, -1);
        for (int at = 0; at < count; at++) {
            struct connection *one = events[at].data.ptr;
            if (!one) {
                int file = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
                if (file < 0) continue;
                setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                one = calloc(1, sizeof *one);
                one->file = file;
                event.data.ptr = one;
                epoll_ctl(ready, EPOLL_CTL_ADD, file, &event);
            } else if (!served(one)) {
                close(one->file);
                free(one);
            }
        }
    }
}
