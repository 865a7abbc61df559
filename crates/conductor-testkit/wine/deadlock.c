/* Shows a deadlock of Wine 8, without Conductor: one thread registers the first window class of the
   process, while another thread loads comctl32.dll. Prints "done" or "deadlock".
   Build: x86_64-w64-mingw32-gcc -o deadlock.exe deadlock.c
   Of 40 runs with `wine deadlock.exe`, 26 ended in the deadlock. Of 60 runs in which the program
   also imported our bcryptprimitives.dll, none did. */
#include <windows.h>

static HANDLE start;

static DWORD WINAPI registers(void *unused)
{
    WNDCLASSW class = {.lpfnWndProc = DefWindowProcW, .lpszClassName = L"deadlock"};

    WaitForSingleObject(start, INFINITE);
    RegisterClassW(&class);
    return 0;
}

static DWORD WINAPI loads(void *unused)
{
    WaitForSingleObject(start, INFINITE);
    LoadLibraryW(L"comctl32.dll");
    return 0;
}

static void end(const char *text, UINT code)
{
    DWORD count;

    WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), text, lstrlenA(text), &count, NULL);
    /* Not ExitProcess, which waits for the lock of the loader. */
    TerminateProcess(GetCurrentProcess(), code);
}

int main(void)
{
    HANDLE threads[2];

    start = CreateEventW(NULL, TRUE, FALSE, NULL);
    threads[0] = CreateThread(NULL, 0, registers, NULL, 0, NULL);
    threads[1] = CreateThread(NULL, 0, loads, NULL, 0, NULL);
    SetEvent(start);
    if (WaitForMultipleObjects(2, threads, TRUE, 10000) == WAIT_TIMEOUT)
        end("deadlock\n", 1);
    end("done\n", 0);
}
