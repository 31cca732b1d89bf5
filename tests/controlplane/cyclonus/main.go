// Reachability judges traffic by NetworkPolicies. It reads policies and questions from standard input as JSON, and prints
// for each question whether the policies of the source (egress) and of the destination (ingress) allow it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	networkingv1 "k8s.io/api/networking/v1"
)

type request struct {
	Policies  []*networkingv1.NetworkPolicy `json:"policies"`
	Questions []*matcher.Traffic            `json:"questions"`
}

type answer struct {
	Egress  bool `json:"egress"`
	Ingress bool `json:"ingress"`
}

func main() {
	answers, err := readAnswers()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answers)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reachability:", err)
		os.Exit(1)
	}
}

// readAnswers returns one answer for each question of standard input. The library panics on a policy that Kubernetes refuses.
func readAnswers() ([]answer, error) {
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	var asked request
	if err := decoder.Decode(&asked); err != nil {
		return nil, err
	}
	if len(asked.Policies) == 0 || len(asked.Questions) == 0 {
		return nil, errors.New("no policies or no questions")
	}
	policy := matcher.BuildNetworkPolicies(false, asked.Policies)
	answers := make([]answer, 0, len(asked.Questions))
	for _, traffic := range asked.Questions {
		verdict := policy.IsTrafficAllowed(traffic)
		answers = append(answers, answer{Egress: verdict.Egress.IsAllowed(), Ingress: verdict.Ingress.IsAllowed()})
	}
	return answers, nil
}
