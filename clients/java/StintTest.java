import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.IntStream;

/** Tests the client against a running Stint, whose address is in STINT_URL. */
public final class StintTest {
    private static final Map<String, Object> SLOW = Map.of("requests", 3, "per", "1h");
    private static final String URL = System.getenv("STINT_URL");
    private static final Stint CLIENT = new Stint(URL, Duration.ofSeconds(5), Stint.OnFailure.THROW);

    private interface Test {
        void run() throws Exception;
    }

    private interface Server {
        void answer(Socket s) throws Exception;
    }

    public static void main(String[] args) {
        Map<String, Test> tests = new LinkedHashMap<>();
        tests.put("a limit in the call", StintTest::limitInTheCall);
        tests.put("rules", StintTest::rules);
        tests.put("at most", () -> equal(3L, CLIENT.take(key(), SLOW, 8, true).charged()));
        tests.put("a wrong call", () -> equal(400, expect(Stint.Refused.class, () -> CLIENT.take("", SLOW, 1, false)).status()));
        tests.put("many at a time", StintTest::manyAtATime);
        tests.put("nobody listens", StintTest::nobodyListens);
        tests.put("silence", () -> served(s -> Thread.sleep(5000)));
        tests.put("a byte at a time", () -> served(StintTest::trickle));
        tests.put("status 503", () -> served(StintTest::busy));
        tests.put("odd answers", StintTest::oddAnswers);
        tests.put("an endless answer", StintTest::endless);
        tests.put("settings", StintTest::settings);
        int failed = 0;
        for (Map.Entry<String, Test> test : tests.entrySet()) {
            try {
                test.getValue().run();
                System.out.println("ok " + test.getKey());
            } catch (Throwable e) {
                failed++;
                System.out.println("FAIL " + test.getKey());
                e.printStackTrace(System.out);
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void limitInTheCall() {
        String key = key();
        for (long left = 2; left >= 0; left--) {
            Stint.Decision d = CLIENT.take(key, SLOW, 1, false);
            equal(List.of(true, 3L, left, false), List.of(d.allowed(), d.limit(), d.remaining(), d.degraded()));
        }
        Stint.Decision d = CLIENT.take(key, SLOW, 1, false);
        equal(List.of(false, "rate_limited"), List.of(d.allowed(), d.reason()));
        equal(true, !d.retryAfter().isZero() && d.retryAfter().toSeconds() <= 3600);
        equal(Stint.NEVER, CLIENT.take(key, SLOW, 4, false).retryAfter());
    }

    private static void rules() {
        Stint.Decision d = CLIENT.check("api", Map.of("user", "\"\\\n\u00fc" + key()));
        equal(List.of(true, "api/user", 100L, 1), List.of(d.allowed(), d.rule(), d.limit(), d.results().size()));
    }

    private static void manyAtATime() {
        String key = key();
        long allowed = IntStream.range(0, 160).parallel()
            .filter(i -> CLIENT.take(key, Map.of("requests", 50, "per", "1h"), 1, false).allowed()).count();
        equal(50L, allowed);
    }

    private static void nobodyListens() throws IOException {
        int port;
        try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = s.getLocalPort();
        }
        policies("http://127.0.0.1:" + port);
    }

    private static void policies(String url) {
        for (Stint.OnFailure policy : List.of(Stint.OnFailure.ALLOW, Stint.OnFailure.DENY)) {
            long began = System.nanoTime();
            Stint.Decision d = new Stint(url, Duration.ofMillis(200), policy).take("k", SLOW, 1, false);
            equal(List.of(policy == Stint.OnFailure.ALLOW, true), List.of(d.allowed(), d.degraded()));
            equal(true, System.nanoTime() - began < 1_000_000_000L);
        }
        expect(Stint.Unavailable.class, () -> new Stint(url, Duration.ofMillis(200), Stint.OnFailure.THROW).take("k", SLOW, 1, false));
    }

    private static void served(Server server) throws IOException {
        try (ServerSocket listener = new ServerSocket(0, 16, InetAddress.getLoopbackAddress())) {
            daemon(() -> {
                while (true) {
                    Socket s = listener.accept();
                    daemon(() -> server.answer(s));
                }
            });
            policies("http://127.0.0.1:" + listener.getLocalPort());
        }
    }

    private static void daemon(Test work) {
        Thread t = new Thread(() -> {
            try {
                work.run();
            } catch (Exception e) {
                // The test is over, or the client left.
            }
        });
        t.setDaemon(true);
        t.start();
    }

    private static void trickle(Socket s) throws Exception {
        OutputStream out = s.getOutputStream();
        for (byte b : ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + "x".repeat(100)).getBytes(StandardCharsets.US_ASCII)) {
            Thread.sleep(50);
            out.write(b);
        }
    }

    private static void busy(Socket s) throws Exception {
        try (s) {
            s.getInputStream().read(new byte[1 << 16]);
            s.getOutputStream().write("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}".getBytes(StandardCharsets.US_ASCII));
        }
    }

    private static void oddAnswers() throws IOException {
        String good = "{\"allowed\":true,\"rule\":\"r\",\"limit\":5,\"remaining\":4,\"retry_after_ms\":0,\"reset_after_ms\":0,"
            + "\"delay_ms\":0,\"degraded\":false}";
        for (String body : List.of("{}", "null", "[]", "5", "[".repeat(100_000), good.replace("true", "\"no\""), good.replace("true", "null"),
            good.replace("after_ms\":0", "after_ms\":" + "9".repeat(400)))) {
            served(s -> {
                s.getInputStream().read(new byte[1 << 16]);
                s.getOutputStream().write(("HTTP/1.1 200 OK\r\nContent-Length: " + body.length() + "\r\n\r\n" + body).getBytes(StandardCharsets.US_ASCII));
            });
        }
    }

    private static void endless() throws IOException {
        try (ServerSocket listener = new ServerSocket(0, 16, InetAddress.getLoopbackAddress())) {
            daemon(() -> {
                Socket s = listener.accept();
                s.getInputStream().read(new byte[1 << 16]);
                OutputStream out = s.getOutputStream();
                out.write("HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
                byte[] blank = " ".repeat(1 << 16).getBytes(StandardCharsets.US_ASCII);
                for (int i = 0; i < 1 << 14; i++) {
                    out.write(blank);
                }
            });
            Stint client = new Stint("http://127.0.0.1:" + listener.getLocalPort(), Duration.ofMinutes(1), Stint.OnFailure.THROW);
            String error = expect(Stint.Unavailable.class, () -> client.take("k", SLOW, 1, false)).getMessage();
            equal(true, error.contains("too long"));
        }
    }

    private static void settings() {
        expect(IllegalArgumentException.class, () -> new Stint("127.0.0.1", Duration.ofSeconds(1), Stint.OnFailure.DENY));
        expect(IllegalArgumentException.class, () -> new Stint(URL, Duration.ZERO, Stint.OnFailure.DENY));
        expect(IllegalArgumentException.class, () -> new Stint(URL, Duration.ofDays(366), Stint.OnFailure.DENY));
    }

    private static String key() {
        return "java " + UUID.randomUUID();
    }

    private static void equal(Object want, Object got) {
        if (!want.equals(got)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }

    private static <E extends Exception> E expect(Class<E> kind, Test work) {
        try {
            work.run();
        } catch (Exception e) {
            if (kind.isInstance(e)) {
                return kind.cast(e);
            }
            throw new AssertionError("got " + e + ", want " + kind.getSimpleName(), e);
        }
        throw new AssertionError("no " + kind.getSimpleName());
    }
}
