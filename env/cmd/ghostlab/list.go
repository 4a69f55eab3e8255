package main

import (
	"fmt"
	"slices"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/metrics"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/cmd/cli"
	"github.com/ghostgym/ghostgym/env/reward"
	"github.com/ghostgym/ghostgym/env/workload"
)

var listCommand = command{
	name: "list", line: "every name there is: workloads, schedulers, profiles, rewards, events, timings, figures",
	usage: `
Usage: ghostlab list [SECTION…] [--json FILE]

Names every workload with its parameters and their ranges, every scheduler, profile, reward, choice of
events and of timing, and the figures of reports. With sections, only those:

  ghostlab list workloads
  ghostlab list schedulers profiles
`,
	run: runList,
}

type named struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
}

type section struct {
	key, title string
	names      []named
}

func runList(c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	sections, err := everyName()
	if err != nil {
		return err
	}
	var keys []string
	for _, s := range sections {
		keys = append(keys, s.key)
	}
	for _, a := range c.args {
		if !slices.Contains(keys, a) {
			return cli.Unknown("section", a, keys)
		}
	}
	all := map[string][]named{}
	for _, s := range sections {
		if len(c.args) > 0 && !slices.Contains(c.args, s.key) {
			continue
		}
		if len(all) > 0 {
			fmt.Fprintln(c.text())
		}
		all[s.key] = s.names
		fmt.Fprintln(c.text(), s.title)
		for _, n := range s.names {
			fmt.Fprintf(c.text(), "  %s\n", n.Name)
			if n.Doc != "" {
				fmt.Fprint(c.text(), cli.Wrap(n.Doc, 6))
			}
		}
	}
	return c.put(all)
}

func everyName() ([]section, error) {
	workloads := section{"workloads", "Workloads: kind:key=value:…, or a file", nil}
	for _, n := range workload.Names() {
		workloads.names = append(workloads.names, named{n, workload.Doc(n)})
	}
	workloads.names = append(workloads.names, named{"FILE.json", workload.Doc("FILE.json")})

	schedulers := section{"schedulers", "Schedulers: policy[+wp][@profile]; +wp is preemption at wakeup, for those that answer by key", nil}
	by := map[policy.Orders]string{policy.Key: "key", policy.Slot: "place", policy.Key | policy.Slot: "key or place"}
	for _, e := range env.Schedulers() {
		schedulers.names = append(schedulers.names, named{e.Name, e.Doc + "; by " + by[e.Orders]})
	}

	profiles := section{"profiles", "Profiles: execution model, queues and costs of a machine", nil}
	for _, n := range sim.Profiles() {
		p, err := sim.LoadProfile(n)
		if err != nil {
			return nil, err
		}
		queues := "a queue per CPU"
		if p.Shared {
			queues = "one queue"
		}
		profiles.names = append(profiles.names, named{n, fmt.Sprintf("%s Model %s, %s, slice %d µs.", p.Doc, p.Model, queues,
			p.Slice/kernel.Microsecond)})
	}

	rewards := section{"rewards", "Rewards of environments", nil}
	for _, n := range reward.Names() {
		rewards.names = append(rewards.names, named{n, reward.Doc(n)})
	}
	figures := section{"figures", "Figures and fates of a run, in 'ghostd run --json', summary.json and the infos of environments", nil}
	for _, d := range metrics.Definitions() {
		figures.names = append(figures.names, named{d.Name, d.Doc})
	}
	return []section{workloads, schedulers, profiles, rewards,
		{"events", "Events: which enqueues the policy is asked about", []named{
			{"default", "every new task, wakeup, yield and preemption whose answer can matter"},
			{"fork", "where the RL fork of ghOSt asks: new tasks, first wakeups without a CPU, yields and preemptions"},
			{"all", "trivial ones too"}}},
		{"timings", "Timings: when an answer takes effect; durations as in 50us or 1.5ms", []named{
			{"sync", "the decision waits for its answer"},
			{"async[+DELAY]", "the task takes its default place at once, and moves when the answer comes, DELAY later"},
			{"hold=BOUND[+DELAY]", "the task is kept back until its answer comes, for at most BOUND"}}},
		figures}, nil
}
