// Command child is the worker of the agent's own tests: static, so that it runs in an empty root.
//
//	child start                 write when it began (CLOCK_BOOTTIME, nanoseconds) to the result file, and wait for SIGTERM
//	child exit CODE             exit
//	child orphans               leave two processes behind that ignore every signal they can, and exit
//	child deaf                  be one of them; also the command itself, to be killed by a fence
//	child told                  wait for SIGTERM, write what the cancel file says by then to the result file, and exit 3
//	child env                   write its environment to the result file
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

func main() {
	began := bootTime()
	switch result := os.Getenv("LEASEHOLD_RESULT_FILE"); os.Args[1] {
	case "start":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		write(result+".began", fmt.Sprint(began))
		<-stop
		write(result, fmt.Sprint(began))
	case "told":
		stop := make(chan os.Signal, 2)
		signal.Notify(stop, syscall.SIGTERM)
		write(result+".began", fmt.Sprint(began))
		<-stop
		why, err := os.ReadFile(os.Getenv("LEASEHOLD_CANCEL_FILE"))
		write(result, fmt.Sprint(string(why), err))
		os.Exit(3)
	case "env":
		write(result, strings.Join(os.Environ(), "\n"))
	case "orphans":
		for range 2 {
			orphan := exec.Command("/bin/child", "deaf")
			orphan.Stdin, orphan.Stderr = os.Stdin, os.Stderr // there is no /dev/null here
			orphan.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			ready, err := orphan.StdoutPipe()
			if err == nil {
				err = orphan.Start()
			}
			if err != nil {
				panic(err)
			}
			_, _ = ready.Read(make([]byte, 1))
		}
		write(result, "left two behind")
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "exit":
		code, _ := strconv.Atoi(os.Args[2])
		os.Exit(code)
	}
}

func write(path, content string) {
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
}

func bootTime() int64 {
	const clockBoottime = 7
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return ts.Nano()
}
