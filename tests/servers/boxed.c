/* A server for the tests of containers: port 8080, "hello world", one process. Its argument is its behaviour:

   plain      serves until SIGTERM, which it reports
   stubborn   ignores SIGTERM
   away       forks a server into the background, and ends
   builds     ends with status 0, as a step of a build
   fails      ends with status 3
   family     has children, also one in a session of its own
   deep       makes 1,200 folders in each other in /var/log, and locks one with a file
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
#include <unistd.h>

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
                int found = strncmp(begun[at], "GET / ", 6) == 0;
                dprintf(open_ones[at].fd, "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n%s\r\n%s",
                        found ? "200 OK" : "404 Not Found", ended ? "Connection: close\r\n" : "",
                        found ? "hello world\n" : "not found..\n");
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
