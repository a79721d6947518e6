/* A server for the tests of containers: port 8080, "hello world", one process. Its argument is its behaviour:

   plain      serves until SIGTERM, which it reports
   stubborn   ignores SIGTERM
   away       forks a server into the background, and ends
   builds     ends with status 0, as a step of a build
   fails      ends with status 3
   family     has children, also one in a session of its own
   deep       makes 1,200 folders in each other in /var/log, and locks one with a file
   asks       answers /db?id=N from the database whose socket $PGHOST has
   foreign    the same over TCP, with names of its own
   writes     tries to write to the machine through /dev, /proc, /sys and its root, reports each, then serves */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "scram.h"

#define MOST 2048

static void stopped(int number) {
    static const char text[] = "stopped by SIGTERM\n";
    (void)!write(1, text, sizeof text - 1);
    _exit(0);
}

static void report(const char *what, int failed) {
    printf("%s: %s\n", what, failed ? strerror(errno) : "written");
}

static void write_everywhere(void) {
    static const char *const places[] = {"/file", "/sys/file", "/dev/kmsg", "/dev/mem", "/dev/made", "/proc/sys/kernel/hostname", "/proc/sys/vm/swappiness",
                                         "/proc/sysrq-trigger", "/sys/kernel/mm/ksm/run", "/etc/passwd"};
    for (size_t at = 0; at < sizeof places / sizeof *places; at++) {
        int is_device = strncmp(places[at], "/dev/", 5) == 0 && strcmp(places[at], "/dev/made");
        int file = open(places[at], O_WRONLY | (is_device ? 0 : O_CREAT), 0644);
        report(places[at], file < 0 || write(file, "1", 1) != 1);
        if (file >= 0) close(file);
    }
    report("remove /dev/null", unlink("/dev/null"));
    report("mode of /dev/null", chmod("/dev/null", 0600));
    report("owner of /dev/zero", chown("/dev/zero", 33, 34));
    report("mount over /sys", mount("tmpfs", "/sys", "tmpfs", 0, NULL));
    report("root writable", mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
    report("device", mknod("/tmp/disk", S_IFBLK | 0600, 0x800));
    report("mount", mount("proc", "/tmp", "proc", 0, NULL));
    report("kill -9 -1", kill(-1, 0));
    report("/tmp/file", close(open("/tmp/file", O_WRONLY | O_CREAT, 0644)));
    fflush(stdout);
}

static void make_deep(void) {
    if (chdir("/var/log")) return;
    mkdir("locked", 0700);
    close(open("locked/file", O_WRONLY | O_CREAT, 0644));
    chmod("locked", 0);
    for (int level = 0; level < 1200; level++)
        if (mkdir("in", 0755) || chdir("in")) return;
    puts("deep enough");
}

/* Sends a message of PostgreSQL's protocol. */
static void tell(int database, char kind, const char *body, size_t length) {
    char message[1024];
    size_t size = 0;
    if (kind) message[size++] = kind;
    unsigned int count = htonl(length + 4);
    memcpy(message + size, &count, 4);
    memcpy(message + size + 4, body, length);
    if (write(database, message, size + 4 + length) < 0) exit(4);
}

/* Logs in by the password in $PGPASSWORD: what the database asked for, with its data. */
static void log_in(int database, char method, char *data, size_t length) {
    char text[512] = "SCRAM-SHA-256", asked[256];
    static const char first[] = "n,," SCRAM_FIRST;
    if (method == 10) {
        unsigned int count = htonl(sizeof first - 1);
        memcpy(text + 14, &count, 4);
        memcpy(text + 18, first, sizeof first - 1);
        tell(database, 'p', text, 18 + sizeof first - 1);
    } else if (method == 11) {
        snprintf(asked, sizeof asked, "%.*s", (int)length, data);
        scram_proof(getenv("PGPASSWORD"), asked, text);
        tell(database, 'p', text, strlen(text));
    }
}

/* Asks the database, and reads until it is ready; returns the first value of a row. */
static int ask(int database, char kind, const char *body, size_t length) {
    static char answer[65536];
    size_t got = 0;
    unsigned int count;
    tell(database, kind, body, length);
    int value = -1;
    for (size_t at = 0;;) {
        while (got < at + 5 || got < at + 1 + ntohl(*(unsigned int *)memcpy(&count, answer + at + 1, 4))) {
            ssize_t more = read(database, answer + got, sizeof answer - got);
            if (more <= 0) exit(5);
            got += more;
        }
        if (answer[at] == 'R') log_in(database, answer[at + 8], answer + at + 9, ntohl(count) - 8);
        if (answer[at] == 'E') fprintf(stderr, "the database: %s\n", answer + at + 6), exit(6);
        if (answer[at] == 'D') value = atoi(strndup(answer + at + 11, 9)); /* the number of columns, then one's length */
        if (answer[at] == 'Z') return value;
        at += 1 + ntohl(count);
    }
}

static int database_over_tcp(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(5432), .sin_addr.s_addr = htonl(0x7f000001)};
    static const char tls[] = {0, 0, 0, 8, 4, (char)210, 22, 47}, startup[] = "\0\3\0\0user\0benchmarkdbuser\0database\0hello_world\0";
    char hosts[256] = "", no = 0;
    int file = open("/etc/hosts", O_RDONLY), database = socket(AF_INET, SOCK_STREAM, 0);
    if (read(file, hosts, sizeof hosts - 1) < 0 || !strstr(hosts, "127.0.0.1 localhost tfb-database")) exit(7);
    close(file);
    if (connect(database, (struct sockaddr *)&address, sizeof address)) {
        perror("port 5432");
        exit(1);
    }
    if (write(database, tls, sizeof tls) < 0 || read(database, &no, 1) != 1 || no != 'N') exit(8);
    ask(database, 0, startup, sizeof startup);
    return database;
}

static int database_of(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/.s.PGSQL.%s", getenv("PGHOST"), getenv("PGPORT"));
    int database = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(database, (struct sockaddr *)&address, sizeof address)) {
        perror(address.sun_path);
        exit(1);
    }
    char startup[256] = {0, 3, 0, 0};
    int length = 4 + sprintf(startup + 4, "user%c%s%cdatabase%c%s%c", 0, getenv("PGUSER"), 0, 0, getenv("PGDATABASE"), 0);
    ask(database, 0, startup, length + 1);
    return database;
}

static int database = -1;

static void respond(int to, const char *asked, int ends) {
    char body[64] = "hello world\n", query[64];
    const char *kind = "text/plain", *status = "200 OK";
    if (database >= 0 && strncmp(asked, "GET /db?id=", 11) == 0) {
        int id = atoi(asked + 11), length = sprintf(query, "SELECT n FROM rows WHERE id = %d", id);
        kind = "application/json";
        sprintf(body, "{\"id\":%d,\"n\":%d}", id, ask(database, 'Q', query, length + 1));
    } else if (strncmp(asked, "GET / ", 6)) {
        status = "404 Not Found";
        strcpy(body, "not found..\n");
    }
    dprintf(to, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n%s", status, kind, strlen(body),
            ends ? "Connection: close\r\n" : "", body);
}

static void serve(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(8080)};
    int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listening, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 1024)) {
        perror("port 8080");
        exit(1);
    }
    static struct pollfd open_ones[MOST];
    static char begun[MOST][4096];
    static size_t sizes[MOST];
    nfds_t count = 1;
    open_ones[0] = (struct pollfd){.fd = listening, .events = POLLIN};
    for (;;) {
        poll(open_ones, count, -1);
        for (nfds_t at = 1; at < count; at++) {
            if (!open_ones[at].revents) continue;
            ssize_t got = read(open_ones[at].fd, begun[at] + sizes[at], sizeof begun[at] - 1 - sizes[at]);
            int ended = got <= 0;
            if (!ended) begun[at][sizes[at] += got] = 0;
            char *end;
            while (!ended && (end = strstr(begun[at], "\r\n\r\n"))) {
                *end = 0;
                ended = strcasestr(begun[at], "connection: close") != NULL || strstr(begun[at], "HTTP/1.0") != NULL;
                respond(open_ones[at].fd, begun[at], ended);
                size_t used = end + 4 - begun[at];
                memmove(begun[at], begun[at] + used, sizes[at] - used + 1);
                sizes[at] -= used;
            }
            if (ended) {
                close(open_ones[at].fd);
                open_ones[at] = open_ones[--count];
                memcpy(begun[at], begun[count], sizeof begun[at]);
                sizes[at--] = sizes[count];
            }
        }
        if (open_ones[0].revents && count < MOST) {
            sizes[count] = 0;
            open_ones[count].fd = accept(listening, NULL, NULL);
            open_ones[count].events = POLLIN;
            open_ones[count].revents = 0;
            if (open_ones[count].fd >= 0) count++;
        }
    }
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "plain";
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, strcmp(how, "stubborn") == 0 ? SIG_IGN : stopped);
    printf("%s, uid %d, pid %d, in %s, MODE=%s\n", how, (int)getuid(), (int)getpid(), get_current_dir_name(),
           getenv("MODE") ? getenv("MODE") : "");
    if (strcmp(how, "builds") == 0) return 0;
    if (strcmp(how, "fails") == 0) return 3;
    if (strcmp(how, "away") == 0 && fork()) return 0;
    if (strcmp(how, "asks") == 0) database = database_of();
    if (strcmp(how, "foreign") == 0) database = database_over_tcp();
    if (strcmp(how, "writes") == 0) write_everywhere();
    if (strcmp(how, "deep") == 0) make_deep();
    if (strcmp(how, "family") == 0)
        for (int child = 0; child < 3; child++)
            if (fork() == 0) {
                if (child) setsid();
                signal(SIGTERM, SIG_IGN);
                for (;;) pause();
            }
    serve();
}
