/* What Haskell's base does not reach: the usage of this process, and foreign threads that call in. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

/* CPU time in ns, voluntary and involuntary context switches, of this process or of its children that have ended. Gives 0 if all
   went well. */
int bench_usage(int children, double out[3]) {
    struct rusage usage;
    if (getrusage(children ? RUSAGE_CHILDREN : RUSAGE_SELF, &usage) != 0) return -1;
    out[0] = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9
           + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
    out[1] = (double)usage.ru_nvcsw;
    out[2] = (double)usage.ru_nivcsw;
    return 0;
}

struct work {
    void (*call)(void);
    int times;
};

static void *run(void *argument) {
    struct work *work = argument;
    for (int i = 0; i < work->times; i++) work->call();
    return NULL;
}

/* Calls back so many times from each of so many new threads, and waits for them. */
int bench_call_from_threads(void (*call)(void), int threads, int times) {
    struct work work = { call, times };
    pthread_t *ids = malloc(threads * sizeof *ids);
    if (ids == NULL) return -1;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, run, &work) != 0) abort();
    for (int i = 0; i < threads; i++)
        if (pthread_join(ids[i], NULL) != 0) abort();
    free(ids);
    return 0;
}
