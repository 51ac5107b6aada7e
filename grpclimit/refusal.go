package grpclimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"stint"
	"stint/internal/web"
	"stint/limiter/response"
	"stint/rule"
)

// retryUnavailable is the time to wait that clients are told if the store failed.
const retryUnavailable = time.Second

// pushback is the trailer that sets the retry time of a retry policy in a service config.
const pushback = "grpc-retry-pushback-ms"

// refuse returns the error of a call that the policy with this index denied.
func (s *Server) refuse(c *call, m *scratch, denied int) error {
	m.fields.Answer(m.policies, denied, s.options.Reset)
	text := s.options.NeverMessage
	if wait := m.Verdict.RetryAfter; wait != stint.Never {
		text = strings.ReplaceAll(s.options.Message, "{wait}", string(web.AppendWait(nil, wait)))
	}
	return s.end(c, m, fieldsOf(&m.fields), refusal(codes.ResourceExhausted, text, m.Verdict.RetryAfter))
}

// refuseListed returns the error of a call that a list or a ban denied: PERMISSION_DENIED, or
// RESOURCE_EXHAUSTED if the status of the list is 429.
func (s *Server) refuseListed(c *call, m *scratch) error {
	code := codes.PermissionDenied
	if m.Verdict.Listed.Status == http.StatusTooManyRequests {
		code = codes.ResourceExhausted
	}
	if m.Verdict.Ban != "" {
		md := metadata.MD{}
		if m.Verdict.RetryAfter != stint.Never {
			m.fields.Wait(m.Verdict.RetryAfter)
			md = fieldsOf(&m.fields)
		}
		return s.end(c, m, md, refusal(code, "This client is banned.", m.Verdict.RetryAfter))
	}
	return s.end(c, m, metadata.MD{}, status.Error(code, "This client is not served."))
}

// refusePenalized returns the error of a call that a penalty denied: RESOURCE_EXHAUSTED.
func (s *Server) refusePenalized(c *call, m *scratch) error {
	wait := m.Verdict.RetryAfter
	m.fields.Wait(wait)
	text := "Too many calls after the limit was reached. Wait " + string(web.AppendWait(nil, wait)) + " and try again."
	return s.end(c, m, fieldsOf(&m.fields), refusal(codes.ResourceExhausted, text, wait))
}

// failed applies the failure policy; nil means that the call passes.
func (s *Server) failed(c *call, m *scratch, err error) error {
	s.report(c, err)
	policy, by := s.asker.OnFailure(&m.Scratch)
	m.Verdict.Decision = stint.Decision{Allowed: policy == rule.Allow, Degraded: true}
	m.Verdict.Rule = by
	if m.Verdict.Allowed {
		return nil
	}
	m.Verdict.RetryAfter = retryUnavailable
	return s.unavailable(c, m)
}

// unavailable returns the error of a call that is denied because the store failed.
func (s *Server) unavailable(c *call, m *scratch) error {
	m.fields.Wait(retryUnavailable)
	const text = "The limit could not be asked. Wait a second and try again."
	return s.end(c, m, fieldsOf(&m.fields), refusal(codes.Unavailable, text, retryUnavailable))
}

// end sets the trailers of a refused call and returns its error.
func (s *Server) end(c *call, m *scratch, md metadata.MD, err error) error {
	wait := int64(-1) // -1: do not retry
	if m.Verdict.RetryAfter <= MaxPushback {
		wait = millis(m.Verdict.RetryAfter).Milliseconds()
	}
	md.Set(pushback, strconv.FormatInt(wait, 10))
	s.name(md, m)
	if set := grpc.SetTrailer(c.ctx, md); set != nil {
		s.report(c, set)
	}
	if s.options.Denied != nil {
		if own := s.options.Denied(c.ctx, c.method, &m.Verdict); own != nil {
			return own
		}
	}
	return err
}

// degraded adds the metadata for answers of a failure policy, if configured.
func (s *Server) degraded(md metadata.MD, m *scratch) {
	if m.Verdict.Degraded && s.options.DegradedHeader != "" {
		md.Set(s.options.DegradedHeader, "true")
	}
}

// name adds the metadata with the deciding policy, and that for answers of a failure policy, if
// configured.
func (s *Server) name(md metadata.MD, m *scratch) {
	s.degraded(md, m)
	if s.options.PolicyHeader == "" {
		return
	}
	if name := response.Policy(&m.Verdict, s.asker); name != "" {
		md.Set(s.options.PolicyHeader, web.Quoted(name))
	}
}

func (s *Server) report(c *call, err error) {
	if s.options.OnError != nil {
		s.options.OnError(c.ctx, c.method, err)
	}
}

// refusal returns a status with a RetryInfo, without one if waiting never helps.
func refusal(code codes.Code, text string, wait time.Duration) error {
	st := status.New(code, text)
	if wait == stint.Never {
		return st.Err()
	}
	with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(millis(wait))})
	if err != nil { // never happens: the message can be encoded
		return st.Err()
	}
	return with.Err()
}

// millis rounds a wait up to whole milliseconds, at least one, so that a client that ignores
// smaller units does not retry too early.
func millis(d time.Duration) time.Duration {
	return max(time.Millisecond, (d+time.Millisecond-1)/time.Millisecond*time.Millisecond)
}

// fieldsOf converts header fields to metadata.
func fieldsOf(f *web.Fields) metadata.MD {
	md := make(metadata.MD, f.Len()+1)
	for i := range f.Len() {
		name, value := f.Field(i)
		md.Set(name.String(), string(value))
	}
	return md
}

// retryDelay returns the time to wait in a RESOURCE_EXHAUSTED error, the longest duration for values that
// are too large, or 0 if there is none.
func retryDelay(err error) time.Duration {
	st, ok := status.FromError(err)
	if !ok || st.Code() != codes.ResourceExhausted {
		return 0
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
