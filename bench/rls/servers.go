package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"stint/bench/contest"
)

// descriptors returns a request with n descriptors, each for another user.
func descriptors(n int) *rls.RateLimitRequest {
	req := &rls.RateLimitRequest{Domain: "bench"}
	for i := range n {
		req.Descriptors = append(req.Descriptors, &ratelimit.RateLimitDescriptor{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprintf("user-%04d", i)}},
		})
	}
	return req
}

// request returns the body that h2load sends: the message after the five bytes of the gRPC frame.
func request(n int) []byte {
	message, err := proto.Marshal(descriptors(n))
	if err != nil {
		panic(err) // cannot happen: we made the message
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// server is a process under measurement.
type server struct {
	program        *contest.Program
	address, admin string
}

// profileToken is the token for profiles: stint serves them to nobody without one.
const profileToken = "profile-of-the-benchmark"

// startServers starts the constant and stint.
func startServers(ctx context.Context, programs *contest.Programs, dir string) ([]*server, error) {
	build, err := contest.BuildStint(ctx, dir)
	if err != nil {
		return nil, err
	}
	constant, first, err := programs.Floor(ctx, "grpc")
	if err != nil {
		return nil, err
	}
	var admin string
	ours, second, err := programs.Serve(ctx, 2, func(a []string) (env, args []string) {
		admin = a[1]
		return []string{"STINT_ADMIN_TOKEN=" + profileToken}, []string{build.Program, "serve", "--rules", build.Rules, "--http=", "--resp=", "--pprof", "--log-level=warn", "--grpc", a[0], "--admin", a[1]}
	})
	return []*server{{first, constant, ""}, {second, ours, admin}}, err
}

// try sends one request, waits until the server is ready, and returns what is wrong with the
// answer.
func (s *server) try(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, descriptors(n), grpc.WaitForReady(true))
	switch {
	case err != nil:
		return err
	case answer.OverallCode != rls.RateLimitResponse_OK:
		return errors.New("the request is denied")
	case s.admin != "" && (len(answer.Statuses) != n || answer.Statuses[n-1].CurrentLimit == nil):
		return fmt.Errorf("no limit was asked: %v", answer)
	}
	return nil
}

// finished match the lines of h2load's summary.
var (
	finished = regexp.MustCompile(`finished in .*, ([0-9.]+) req/s`)
	counts   = regexp.MustCompile(`requests: .* (\d+) done, (\d+) succeeded`)
)

// load sends requests for a while, and returns the number of answered calls, and the rate per
// second.
func load(ctx context.Context, s settings, address, body string) (calls int, rate float64, err error) {
	cmd := exec.CommandContext(ctx, "taskset", "-c", contest.LoadProcessor, "h2load",
		"-c", strconv.Itoa(s.connections), "-m", strconv.Itoa(s.streams), "-D", strconv.Itoa(max(1, int(s.time/time.Second))), "-d", body,
		"-H", "content-type: application/grpc", "-H", "te: trailers",
		"http://"+address+"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("h2load: %w\n%s", err, out)
	}
	speed, done := finished.FindSubmatch(out), counts.FindSubmatch(out)
	if speed == nil || done == nil || string(done[1]) != string(done[2]) {
		return 0, 0, fmt.Errorf("h2load had calls fail:\n%s", out)
	}
	calls, errCalls := strconv.Atoi(string(done[1]))
	rate, errRate := strconv.ParseFloat(string(speed[1]), 64)
	return calls, rate, errors.Join(errCalls, errRate)
}
