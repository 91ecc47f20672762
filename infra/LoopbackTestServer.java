// Temporal's time-skipping test server, listening on 127.0.0.1 only: its own main class opens its port to everybody.
// Compiled by infra/time_skipping.py when the server is fetched. Arguments as the SDK gives them: a port, flags.

import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.temporal.internal.testservice.GRPCServerHelper;
import io.temporal.internal.testservice.TestServicesStarter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Arrays;

public final class LoopbackTestServer {
  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    boolean locked = !Arrays.asList(arguments).contains("--enable-time-skipping");
    TestServicesStarter services = new TestServicesStarter(locked, 0);
    NettyServerBuilder server =
        NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    GRPCServerHelper.registerServicesAndHealthChecks(services.getServices(), server);
    server.build().start().awaitTermination();
  }
}
