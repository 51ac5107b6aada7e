import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * A client for Stint's POST /v1/check: may this request pass now?
 *
 * <pre>{@code
 * Stint limits = new Stint("http://127.0.0.1:8080", Duration.ofMillis(50), Stint.OnFailure.ALLOW);
 * Stint.Decision decision = limits.check("api", Map.of("user", "42"));
 * if (!decision.allowed()) { ... } // answer 429, with Retry-After: decision.retryAfter()
 * }</pre>
 *
 * One file, Java 17 or newer, no dependency; put it into a package of yours. It may be used by many
 * threads, and keeps connections open. A call is never sent twice, because it could be charged twice.
 */
public final class Stint {
    /** What to answer if Stint does not answer in time. */
    public enum OnFailure { ALLOW, DENY, THROW }

    /** Stint refused the call, because something in it is wrong. Nothing was charged. */
    public static final class Refused extends RuntimeException {
        private final int status;

        Refused(int status, String message) {
            super("stint refused the call with status " + status + ": " + message);
            this.status = status;
        }

        public int status() {
            return status;
        }
    }

    /** Stint did not answer in time, and the policy is THROW. */
    public static final class Unavailable extends RuntimeException {
        Unavailable(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** NEVER is the retryAfter of a request that never passes. */
    public static final Duration NEVER = Duration.ofMillis(Long.MAX_VALUE);

    /**
     * Whether a request may pass. limit and remaining are null if no limit applies; charged is null
     * without atMost. delay: wait so long before the request is served (leaky_bucket). degraded: a
     * failure policy answered, Stint's or that of this client.
     */
    public record Decision(boolean allowed, String rule, Long limit, Long remaining, Duration retryAfter,
            Duration resetAfter, Duration delay, boolean degraded, String reason, Long charged, List<Decision> results) {}

    private final URI uri;
    private final Duration timeout;
    private final OnFailure onFailure;
    private final HttpClient http;

    /** timeout is for a whole call, connecting included. */
    public Stint(String url, Duration timeout, OnFailure onFailure) {
        this(url, timeout, onFailure, HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build());
    }

    /** With a client of yours, for example for TLS with an authority of your own. */
    public Stint(String url, Duration timeout, OnFailure onFailure, HttpClient http) {
        this.uri = URI.create(url.replaceAll("/+$", "") + "/v1/check");
        if (uri.getHost() == null || !List.of("http", "https").contains(uri.getScheme())) {
            throw new IllegalArgumentException(url + " is not a URL such as http://127.0.0.1:8080");
        }
        if (timeout.isNegative() || timeout.isZero() || timeout.compareTo(Duration.ofDays(365)) > 0) { // which nanoseconds can count
            throw new IllegalArgumentException("timeout must be above 0, and at most a year");
        }
        this.timeout = timeout;
        this.onFailure = onFailure;
        this.http = http;
    }

    /** Decides one descriptor by the rules of a domain. The order of a map of several entries counts. */
    public Decision check(String domain, Map<String, String> descriptor) {
        return check(domain, List.of(descriptor), 1, false);
    }

    /** Decides descriptors by the rules of a domain, all as one. */
    public Decision check(String domain, List<Map<String, String>> descriptors, long cost, boolean atMost) {
        List<Object> list = new ArrayList<>();
        for (Map<String, String> descriptor : descriptors) {
            List<Object> entries = new ArrayList<>();
            descriptor.forEach((key, value) -> entries.add(Map.of("key", key, "value", value)));
            list.add(Map.of("entries", entries));
        }
        return decide(call(cost, atMost, "domain", domain, "descriptors", list));
    }

    /** Decides by a limit in the call, such as Map.of("requests", 5, "per", "1s"). */
    public Decision take(String key, Map<String, ?> limit, long cost, boolean atMost) {
        return decide(call(cost, atMost, "key", key, "limit", limit));
    }

    private static Map<String, Object> call(long cost, boolean atMost, String a, Object x, String b, Object y) {
        Map<String, Object> call = new LinkedHashMap<>(Map.of(a, x, b, y, "cost", cost));
        if (atMost) {
            call.put("at_most", true);
        }
        return call;
    }

    private Decision decide(Map<String, Object> call) {
        StringBuilder body = new StringBuilder();
        write(body, call);
        HttpRequest request = HttpRequest.newBuilder(uri).header("Content-Type", "application/json").timeout(timeout)
            .POST(HttpRequest.BodyPublishers.ofString(body.toString())).build();
        CompletableFuture<HttpResponse<String>> sent = http.sendAsync(request, answer -> new Body());
        HttpResponse<String> response;
        try {
            response = sent.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException e) {
            return failed(e.getCause());
        } catch (TimeoutException e) {
            sent.cancel(true);
            return failed(new TimeoutException("timed out after " + timeout));
        } catch (InterruptedException e) {
            sent.cancel(true);
            Thread.currentThread().interrupt();
            return failed(e);
        }
        Object answer;
        try {
            answer = new Json(response.body()).whole();
            if (response.statusCode() == 200) {
                return decision((Map<?, ?>) answer);
            }
        } catch (RuntimeException e) {
            answer = null;
        }
        int status = response.statusCode();
        String text = answer instanceof Map<?, ?> m && m.get("error") instanceof Map<?, ?> e ? String.valueOf(e.get("message"))
            : response.body().substring(0, Math.min(200, response.body().length()));
        if (status >= 400 && status < 500 && status != 408 && status != 429) {
            throw new Refused(status, text);
        }
        return failed(new IOException("status " + status + ": " + text));
    }

    private Decision failed(Throwable cause) {
        if (onFailure == OnFailure.THROW) {
            throw new Unavailable("no decision from " + uri.getAuthority() + ": " + cause, cause);
        }
        boolean allowed = onFailure == OnFailure.ALLOW;
        return new Decision(allowed, "", null, null, Duration.ofSeconds(allowed ? 0 : 1), Duration.ZERO, Duration.ZERO, true,
            allowed ? "" : "limit_unavailable", null, List.of());
    }

    private static Decision decision(Map<?, ?> a) {
        List<Decision> results = new ArrayList<>();
        if (a.get("results") instanceof List<?> list) {
            list.forEach(r -> results.add(decision((Map<?, ?>) r)));
        }
        return new Decision((Boolean) a.get("allowed"), (String) a.get("rule"), (Long) a.get("limit"), (Long) a.get("remaining"),
            time(a.get("retry_after_ms")), time(a.get("reset_after_ms")), time(a.get("delay_ms")), (Boolean) a.get("degraded"),
            a.get("reason") instanceof String s ? s : "", (Long) a.get("charged"), List.copyOf(results));
    }

    private static Duration time(Object ms) {
        return (Long) ms < 0 ? NEVER : Duration.ofMillis((Long) ms);
    }

    private static void write(StringBuilder to, Object value) {
        String comma = "";
        if (value instanceof Map<?, ?> map) {
            to.append('{');
            for (Map.Entry<?, ?> e : map.entrySet()) {
                to.append(comma);
                write(to, e.getKey());
                to.append(':');
                write(to, e.getValue());
                comma = ",";
            }
            to.append('}');
        } else if (value instanceof List<?> list) {
            to.append('[');
            for (Object e : list) {
                to.append(comma);
                write(to, e);
                comma = ",";
            }
            to.append(']');
        } else if (value instanceof Number || value instanceof Boolean) {
            to.append(value);
        } else {
            to.append('"');
            for (char c : String.valueOf(value).toCharArray()) {
                if (c < ' ' || c == '"' || c == '\\') {
                    to.append(String.format("\\u%04x", (int) c));
                } else {
                    to.append(c);
                }
            }
            to.append('"');
        }
    }

    /** Body collects the body of an answer, and fails if it is longer than any of Stint. */
    private static final class Body implements HttpResponse.BodySubscriber<String> {
        private static final int LONGEST = 1 << 24;
        private final CompletableFuture<String> text = new CompletableFuture<>();
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private Flow.Subscription subscription;

        @Override
        public CompletionStage<String> getBody() {
            return text;
        }

        @Override
        public void onSubscribe(Flow.Subscription from) {
            subscription = from;
            from.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(List<ByteBuffer> parts) {
            for (ByteBuffer part : parts) {
                if (bytes.size() + part.remaining() > LONGEST) {
                    subscription.cancel();
                    text.completeExceptionally(new IOException("the answer is too long"));
                    return;
                }
                byte[] copy = new byte[part.remaining()];
                part.get(copy);
                bytes.write(copy, 0, copy.length);
            }
        }

        @Override
        public void onError(Throwable cause) {
            text.completeExceptionally(cause);
        }

        @Override
        public void onComplete() {
            text.complete(bytes.toString(StandardCharsets.UTF_8));
        }
    }

    /** Json reads the JSON of Stint: whole numbers are Long, all others Double. */
    private static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Object whole() {
            Object value = value(0);
            if (peek() != 0) {
                throw new IllegalArgumentException("more text after the JSON");
            }
            return value;
        }

        private char peek() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            return at < text.length() ? text.charAt(at) : 0;
        }

        private boolean next(char c) {
            if (peek() != c) {
                return false;
            }
            at++;
            return true;
        }

        private void want(char c) {
            if (!next(c)) {
                throw new IllegalArgumentException("no " + c + " at " + at);
            }
        }

        private Object value(int depth) {
            if (depth > 64) {
                throw new IllegalArgumentException("too deep");
            }
            switch (peek()) {
                case '{': {
                    Map<String, Object> map = new LinkedHashMap<>();
                    want('{');
                    while (!next('}')) {
                        if (!map.isEmpty()) {
                            want(',');
                        }
                        String key = string();
                        want(':');
                        map.put(key, value(depth + 1));
                    }
                    return map;
                }
                case '[': {
                    List<Object> list = new ArrayList<>();
                    want('[');
                    while (!next(']')) {
                        if (!list.isEmpty()) {
                            want(',');
                        }
                        list.add(value(depth + 1));
                    }
                    return list;
                }
                case '"':
                    return string();
                default:
                    return word();
            }
        }

        private Object word() {
            int start = at;
            while (at < text.length() && ",]} \t\r\n".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            String word = text.substring(start, at);
            return switch (word) {
                case "true" -> Boolean.TRUE;
                case "false" -> Boolean.FALSE;
                case "null" -> null;
                default -> word.matches("-?\\d{1,19}") ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
            };
        }

        private String string() {
            want('"');
            StringBuilder to = new StringBuilder();
            for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
                if (c != '\\') {
                    to.append(c);
                    continue;
                }
                c = text.charAt(at++);
                int i = "bfnrt".indexOf(c);
                if (c == 'u') {
                    to.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                    at += 4;
                } else {
                    to.append(i < 0 ? c : "\b\f\n\r\t".charAt(i));
                }
            }
            return to.toString();
        }
    }
}
