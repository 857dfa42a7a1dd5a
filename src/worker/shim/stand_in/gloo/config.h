// libtorch's wheel lacks gloo's headers. ProcessGroupGloo.hpp includes this one and uses nothing of it.
#pragma once
