package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/binaries"
	"github.com/leasehold-io/leasehold/hack/localcluster/internal/cluster"
)

const usage = `usage: localcluster COMMAND

  up                             bring the cluster up, or repair it, and wait until it can run Pods
  down                           end it and remove all of it
  status                         show components and nodes; fails unless all is well
  kubeconfig                     print the path of the administrator's kubeconfig
  load IMAGE-TAR...              import image archives into both nodes

  partition NODE [--direction both|from|to]
                                 cut a node's network (nodes: lh-n1, lh-n2), or lose only what it sends (from) or gets (to)
  heal NODE                      undo every partition of the node
  stop-kubelet NODE | start-kubelet NODE
  api-stop | api-start           stop or start the API server alone
  node-exec NODE -- CMD...       run a command in a node's network namespace

  freeze POD [-n NAMESPACE]      stop all processes of a Pod's containers (SIGSTOP)
  thaw POD [-n NAMESPACE]        let them go on (SIGCONT)
  node-pids POD [-n NAMESPACE]   print "PID CONTAINER" for each of them

  binaries [NAME...]             build what is missing of the Kubernetes binaries (all by default) and print their directory
`

var errUsage = errors.New("usage")

// command gets the arguments behind its name.
type command struct {
	minArgs, maxArgs int // maxArgs < 0 is no limit
	run              func(ctx context.Context, c *cluster.Cluster, args []string) error
}

var commands = map[string]command{
	"up":     {0, 0, func(ctx context.Context, c *cluster.Cluster, _ []string) error { return c.Up(ctx) }},
	"down":   {0, 0, func(ctx context.Context, c *cluster.Cluster, _ []string) error { return c.Down(ctx) }},
	"status": {0, 0, func(ctx context.Context, c *cluster.Cluster, _ []string) error { return c.Status(ctx, os.Stdout) }},
	"kubeconfig": {0, 0, func(_ context.Context, c *cluster.Cluster, _ []string) error {
		fmt.Println(c.AdminKubeconfig())
		return nil
	}},
	"load":         {1, -1, func(ctx context.Context, c *cluster.Cluster, args []string) error { return c.Load(ctx, args) }},
	"partition":    {1, 3, partition},
	"heal":         {1, 1, func(ctx context.Context, c *cluster.Cluster, args []string) error { return c.Heal(ctx, args[0]) }},
	"stop-kubelet": {1, 1, func(ctx context.Context, c *cluster.Cluster, args []string) error { return c.StopKubelet(ctx, args[0]) }},
	"start-kubelet": {1, 1, func(ctx context.Context, c *cluster.Cluster, args []string) error {
		return c.StartKubelet(ctx, args[0])
	}},
	"api-stop":  {0, 0, func(ctx context.Context, c *cluster.Cluster, _ []string) error { return c.StopAPI(ctx) }},
	"api-start": {0, 0, func(ctx context.Context, c *cluster.Cluster, _ []string) error { return c.StartAPI(ctx) }},
	"node-exec": {2, -1, nodeExec},
	"freeze":    {1, 3, onPod("froze", (*cluster.Cluster).Freeze)},
	"thaw":      {1, 3, onPod("thawed", (*cluster.Cluster).Thaw)},
	"node-pids": {1, 3, nodePIDs},
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	name, args := args[0], args[1:]
	if name == "binaries" {
		return printBinaries(ctx, args)
	}
	cmd, known := commands[name]
	if !known || len(args) < cmd.minArgs || (cmd.maxArgs >= 0 && len(args) > cmd.maxArgs) {
		return errUsage
	}
	layout, err := cluster.NewLayout("")
	if err != nil {
		return err
	}
	return cmd.run(ctx, cluster.New(layout, os.Stderr), args)
}

func printBinaries(ctx context.Context, names []string) error {
	if len(names) == 0 {
		names = binaries.Names()
	}
	dir, err := binaries.Directory(ctx, os.Stderr, names)
	if err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}

func partition(ctx context.Context, c *cluster.Cluster, args []string) error {
	node, direction, err := partitionArgs(args)
	if err != nil {
		return err
	}
	return c.Partition(ctx, node, direction)
}

// partitionArgs reads NODE and --direction DIRECTION (also --direction=DIRECTION) in any order.
func partitionArgs(args []string) (node string, direction cluster.Direction, err error) {
	direction = cluster.Both
	for i := 0; i < len(args) && err == nil; i++ {
		value, joined := strings.CutPrefix(args[i], "--direction=")
		switch {
		case joined:
			direction, err = cluster.ParseDirection(value)
		case args[i] == "--direction" && i+1 < len(args):
			i++
			direction, err = cluster.ParseDirection(args[i])
		case node == "" && !strings.HasPrefix(args[i], "-"):
			node = args[i]
		default:
			err = errUsage
		}
	}
	if err == nil && node == "" {
		err = errUsage
	}
	return node, direction, err
}

func nodeExec(_ context.Context, c *cluster.Cluster, args []string) error {
	argv := args[1:]
	if argv[0] == "--" {
		argv = argv[1:]
	}
	if len(argv) == 0 {
		return errUsage
	}
	return c.NodeExec(args[0], argv)
}

func onPod(done string, act func(*cluster.Cluster, context.Context, string, string) (int, error)) func(context.Context, *cluster.Cluster, []string) error {
	return func(ctx context.Context, c *cluster.Cluster, args []string) error {
		namespace, pod, err := podArgs(args)
		if err != nil {
			return err
		}
		count, err := act(c, ctx, namespace, pod)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s %d processes of pod %s/%s\n", done, count, namespace, pod)
		return nil
	}
}

func nodePIDs(ctx context.Context, c *cluster.Cluster, args []string) error {
	namespace, pod, err := podArgs(args)
	if err != nil {
		return err
	}
	processes, err := c.Processes(ctx, namespace, pod)
	if err != nil {
		return err
	}
	for _, p := range processes {
		fmt.Printf("%d %s\n", p.PID, p.Container)
	}
	return nil
}

// podArgs reads POD and -n NAMESPACE (also -n=NAMESPACE) in any order.
func podArgs(args []string) (namespace, pod string, err error) {
	namespace = "default"
	for i := 0; i < len(args); i++ {
		value, joined := strings.CutPrefix(args[i], "-n=")
		switch {
		case joined:
			namespace = value
		case args[i] == "-n" && i+1 < len(args):
			i++
			namespace = args[i]
		case pod == "" && !strings.HasPrefix(args[i], "-"):
			pod = args[i]
		default:
			return "", "", errUsage
		}
	}
	if pod == "" || namespace == "" {
		return "", "", errUsage
	}
	return namespace, pod, nil
}
