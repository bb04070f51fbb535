/* Runs a program that was built as a shared library, out of sight of all that is here: loads LIBRARY */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "main") : NULL;
    if (!run) {
        fprintf(stderr, "loads: %s\n", argc > 1 ? dlerror() : "no library is named");
        return 2;
    }
    return run(argc - 1, argv + 1);
}
