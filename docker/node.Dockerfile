# One lock node, as lockpick starts it where nothing is to survive a restart. It needs no
# file of the repository:
#
#   docker build -f docker/node.Dockerfile -t lockpick-node docker
#
# BASE may be any image of Redis or Valkey; SERVER is the program in it. For a build that
# can be repeated, give BASE with its digest: NAME@sha256:…
ARG BASE=redis:7.4.11-bookworm
FROM ${BASE}
ARG SERVER=redis-server
# By a name that every base can be started by. The script that most have would change to
# another user, which takes capabilities that lockpick's containers don't have.
RUN ln -s "$(command -v ${SERVER})" /usr/local/bin/lock-node && mkdir -m 1777 /node
WORKDIR /node
USER 65532:65532
EXPOSE 6379
ENTRYPOINT ["lock-node", "--bind", "0.0.0.0", "--protected-mode", "no", "--port", "6379", "--dir", "/node", "--databases", "1", "--save", ""]
CMD ["--appendonly", "no"]
