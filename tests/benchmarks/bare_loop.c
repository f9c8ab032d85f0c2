/* The bound: runs each line of standard input under `bash -c`, N at a time, and keeps nothing. Usage: bare_loop N */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void start(const char *command)
{
    pid_t child = vfork();
    if (child < 0) {
        perror("vfork");
        exit(1);
    }
    if (child == 0) {
        execl("/bin/bash", "bash", "-c", command, (char *)NULL);
        _exit(127);
    }
}

int main(int count, char **words)
{
    int lanes = count > 1 ? atoi(words[1]) : 1, running = 0;
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        line[strcspn(line, "\n")] = '\0';
        if (running == lanes && wait(NULL) > 0)
            running--;
        start(line);
        running++;
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}
