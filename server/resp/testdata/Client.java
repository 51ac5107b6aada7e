import java.nio.charset.StandardCharsets;
import java.util.List;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.commands.ProtocolCommand;

/** Asks a server of the Redis protocol with Jedis, without options. Prints what CL.THROTTLE says. */
public class Client {
  static ProtocolCommand command(String name) {
    return () -> name.getBytes(StandardCharsets.UTF_8);
  }

  public static void main(String[] args) {
    int port = Integer.parseInt(args[0]);
    try (Jedis client = new Jedis("127.0.0.1", port)) {
      for (int i = 0; i < 2; i++) {
        List<?> answer = (List<?>) client.sendCommand(command("CL.THROTTLE"), "java", "1", "1", "60");
        StringBuilder line = new StringBuilder();
        for (Object n : answer) line.append(line.length() > 0 ? " " : "").append(n);
        System.out.println(line);
      }
      List<?> answer = (List<?>) client.sendCommand(command("STINT.CHECK"), "api", "1", "user", "java");
      if (!Long.valueOf(2).equals(answer.get(7))) throw new IllegalStateException("STINT.CHECK: " + answer);
    }
    try (JedisPooled pooled = new JedisPooled("127.0.0.1", port)) {
      pooled.sendCommand(command("PING"));
    }
  }
}
