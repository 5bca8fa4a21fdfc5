"""Networks to try things on, in plain torch."""

import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 with a shortcut."""

    def __init__(self, c_in, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c_in, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.down = None
        if stride != 1 or c_in != 4 * width:
            self.down = nn.Sequential(nn.Conv2d(c_in, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        return functional.relu(self.bn3(self.conv3(y)) + (x if self.down is None else self.down(x)))


class Basic(nn.Module):
    """Two 3x3 with a shortcut."""

    def __init__(self, c_in, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c_in, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.down = None
        if stride != 1 or c_in != width:
            self.down = nn.Sequential(nn.Conv2d(c_in, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + (x if self.down is None else self.down(x)))


class ResNet(nn.Module):
    """A residual network of 18 (basic) or 50 (bottleneck) layers."""

    def __init__(self, block, counts, growth):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        layers, c = [], 64
        for stage, count in enumerate(counts):
            for number in range(count):
                layers.append(block(c, 64 << stage, 2 if stage and not number else 1))
                c = growth * (64 << stage)
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(c, 10)

    def forward(self, x):
        return self.head(self.layers(self.stem(x)).mean((2, 3)))


def resnet18():
    return ResNet(Basic, (2, 2, 2, 2), 1)


def resnet50():
    return ResNet(Bottleneck, (3, 4, 6, 3), 4)


class Dense(nn.Module):
    """A 1x1 and a 3x3 whose 32 channels join the input's."""

    def __init__(self, c_in):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(c_in), nn.Conv2d(c_in, 128, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(128), nn.Conv2d(128, 32, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv2(functional.relu(self.bn2(self.conv1(functional.relu(self.bn1(x))))))
        return torch.cat((x, y), 1)


def densenet121():
    """Four blocks of dense layers, halved between them."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    c = 64
    for count in (6, 12, 24, 16):
        if c > 64:
            layers += [nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c // 2, 1, bias=False), nn.AvgPool2d(2)]
            c //= 2
        layers += [Dense(c + 32 * number) for number in range(count)]
        c += 32 * count
    return nn.Sequential(
        *layers, nn.BatchNorm2d(c), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 10)
    )


class Inverted(nn.Module):
    """1x1, depthwise 3x3, 1x1 with a shortcut where shapes allow."""

    def __init__(self, c_in, c_out, stride, growth):
        super().__init__()
        c = c_in * growth
        self.layers = nn.Sequential(
            nn.Conv2d(c_in, c, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU6(),
            nn.Conv2d(c, c, 3, stride, 1, groups=c, bias=False), nn.BatchNorm2d(c), nn.ReLU6(),
            nn.Conv2d(c, c_out, 1, bias=False), nn.BatchNorm2d(c_out),
        )
        self.shortcut = stride == 1 and c_in == c_out

    def forward(self, x):
        return x + self.layers(x) if self.shortcut else self.layers(x)


def mobilenet_v2():
    """Depthwise windows between 1x1 layers."""
    layers, c = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
    rows = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for growth, width, count, stride in rows:
        for number in range(count):
            layers.append(Inverted(c, width, 1 if number else stride, growth))
            c = width
    layers += [nn.Conv2d(c, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 10))


class UNet(nn.Module):
    """Two levels down by stride, up by transposed convolution, with skips; returns a dict."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Conv2d(1, 8, 3, padding=1)
        self.down1, self.down2 = nn.Conv2d(8, 16, 3, 2, 1), nn.Conv2d(16, 32, 3, 2, 1)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(32, 8, 3, 2, 1, output_padding=1)
        self.leave = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        a = functional.relu(self.enter(x))
        b = functional.relu(self.down1(a))
        c = functional.relu(self.down2(b))
        b = torch.cat((b, functional.relu(self.up2(c))), 1)
        a = torch.cat((a, functional.relu(self.up1(b))), 1)
        return {"logits": self.leave(a)}


class Video(nn.Module):
    """A 3-D network with a factored convolution."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv3d(3, 16, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
        self.norm = nn.BatchNorm3d(16)
        self.space, self.time = nn.Conv3d(16, 32, (1, 3, 3), padding=(0, 1, 1)), nn.Conv3d(32, 32, (3, 1, 1))
        self.grouped = nn.Conv3d(32, 32, 3, groups=4, padding=1)
        self.head = nn.Linear(32, 5)

    def forward(self, clip):
        x = functional.relu(self.norm(self.stem(clip)))
        return self.head(self.grouped(functional.relu(self.time(self.space(x)))).mean((2, 3, 4)))


class ConvTbc(nn.Module):
    """A layer around torch.conv_tbc."""

    def __init__(self, c_in, c_out, window, pad):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(window, c_in, c_out))
        self.bias = nn.Parameter(torch.zeros(c_out))
        self.pad = pad

    def forward(self, x):
        return torch.conv_tbc(x, self.weight, self.bias, self.pad)


class Speech(nn.Module):
    """Gated time-batch-channel layers and one long 1-D window."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(ConvTbc(16, 32, 3, 1) for _ in range(3))
        self.long = nn.Conv1d(16, 16, 301, padding=150, groups=16)

    def forward(self, x):
        for layer in self.layers:
            x = x + functional.glu(layer(x), -1)
        return self.long(x.permute(1, 2, 0))


def deep():
    """One hundred convolutions."""
    layers = [nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()) for _ in range(100)]
    return nn.Sequential(*layers)


class Small(nn.Module):
    """For training on a CPU within seconds: 16x16 images, four classes."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.norm = nn.BatchNorm2d(16)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = functional.relu(self.norm(self.conv2(functional.relu(self.conv1(x)))))
        return self.head(functional.relu(self.up(x)).mean((2, 3)))
