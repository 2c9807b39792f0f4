// A stub of RedLock.net of NuGet, see README.md.
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Reflection;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using RedLockNet.SERedis.Configuration;

[assembly: AssemblyInformationalVersion("stub")]

namespace RedLockNet
{
    public enum RedLockStatus { Unlocked, Acquired, NoQuorum, Conflicted, Expired }

    public interface IRedLock : IDisposable
    {
        string LockId { get; }
        bool IsAcquired { get; }
        RedLockStatus Status { get; }
    }
}

namespace RedLockNet.SERedis.Configuration
{
    public class RedLockEndPoint
    {
        public EndPoint EndPoint { get; set; }
        public int? ConnectionTimeout { get; set; }
        public int? SyncTimeout { get; set; }

        internal string Ask(params string[] words)
        {
            var to = (DnsEndPoint)EndPoint;
            try
            {
                using (var tcp = new TcpClient(to.Host, to.Port))
                {
                    tcp.ReceiveTimeout = SyncTimeout ?? 1000;
                    var said = Encoding.UTF8.GetBytes("*" + words.Length + "\r\n" + string.Concat(words.Select(w => "$" + Encoding.UTF8.GetByteCount(w) + "\r\n" + w + "\r\n")));
                    tcp.GetStream().Write(said, 0, said.Length);
                    return new StreamReader(tcp.GetStream()).ReadLine();
                }
            }
            catch (Exception e) when (e is IOException || e is SocketException)
            {
                return null;
            }
        }
    }
}

namespace RedLockNet.SERedis
{
    public class RedLockFactory
    {
        IList<RedLockEndPoint> nodes;

        public static RedLockFactory Create(IList<RedLockEndPoint> endPoints) => new RedLockFactory { nodes = endPoints };

        public async Task<IRedLock> CreateLockAsync(string resource, TimeSpan expiryTime, TimeSpan waitTime, TimeSpan retryTime, CancellationToken? cancellationToken = null)
        {
            var since = Stopwatch.StartNew();
            for (;;)
            {
                var got = await Task.Run(() => new RedLock(nodes, "redlock:" + resource, expiryTime));
                if (got.IsAcquired || since.Elapsed >= waitTime) return got;
                await Task.Delay(retryTime, cancellationToken ?? CancellationToken.None);
            }
        }
    }

    class RedLock : IRedLock
    {
        const string IfOwn = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call({0}) end return 0";
        readonly IList<RedLockEndPoint> nodes;
        readonly string key, millis;
        readonly Timer timer;

        public string LockId { get; } = Guid.NewGuid().ToString();
        public RedLockStatus Status { get; private set; }
        public bool IsAcquired => Status == RedLockStatus.Acquired;

        internal RedLock(IList<RedLockEndPoint> nodes, string key, TimeSpan expiry)
        {
            this.nodes = nodes;
            this.key = key;
            millis = ((long)expiry.TotalMilliseconds).ToString();
            Vote(node => node.Ask("SET", key, LockId, "NX", "PX", millis), "+OK");
            if (IsAcquired)
                timer = new Timer(_ => Vote(node => node.Ask("EVAL", string.Format(IfOwn, "'pexpire',KEYS[1],ARGV[2]"), "1", key, LockId, millis), ":1"), null, (int)expiry.TotalMilliseconds / 2, (int)expiry.TotalMilliseconds / 2);
            else
                Unlock();
        }

        void Vote(Func<RedLockEndPoint, string> ask, string yes)
        {
            var said = nodes.Select(ask).ToList();
            Status = said.Count(s => s == yes) > nodes.Count / 2 ? RedLockStatus.Acquired
                : said.Count(s => s != null) > nodes.Count / 2 ? RedLockStatus.Conflicted : RedLockStatus.NoQuorum;
        }

        void Unlock()
        {
            foreach (var node in nodes) node.Ask("EVAL", string.Format(IfOwn, "'del',KEYS[1]"), "1", key, LockId);
        }

        public void Dispose()
        {
            timer.Dispose();
            Unlock();
            Status = RedLockStatus.Unlocked;
        }
    }
}
