# One lock node, as lockpick starts it if nothing needs to survive a restart. The build needs no
# other file of the repository:
#
#   docker build -f docker/node.Dockerfile -t lockpick-node docker
#
# BASE may be any image of Redis or Valkey; SERVER is the server program in it. For a reproducible
# build, give BASE with its digest: NAME@sha256:…
ARG BASE=redis:7.4.11-bookworm
FROM ${BASE}
ARG SERVER=redis-server
# A fixed name that works with every base. The entrypoint script of most images would switch to
# another user, which requires capabilities that lockpick's containers don't have.
RUN ln -s "$(command -v ${SERVER})" /usr/local/bin/lock-node && mkdir -m 1777 /node
WORKDIR /node
USER 65532:65532
EXPOSE 6379
ENTRYPOINT ["lock-node", "--bind", "0.0.0.0", "--protected-mode", "no", "--port", "6379", "--dir", "/node", "--databases", "1", "--save", ""]
CMD ["--appendonly", "no"]
